-- Limits: what holds work back.

-- The slots of one key of a limit, or its bucket of tokens.
create table perdure.limits (
    id    bigint generated always as identity primary key,
    name  text not null,
    key   text not null,
    most  bigint not null default 0, -- slots; 0 for as many as are asked for
    held  bigint not null default 0,
    asks  bigint not null default 0, -- the last number of an ask
    every bigint,                    -- nanoseconds in which the bucket gains a token
    burst bigint,
    "full" bigint,                   -- when the bucket is full again, by the clock of this database
    clock bigint,                    -- the latest time of an ask for a token
    revision bigint not null default 0 -- of the setting that its numbers come from
) with (fillfactor = 70);

create unique index limits_by_name on perdure.limits (name, key);
create index limits_full on perdure.limits ("full") where "full" is not null;

-- A slot that a run holds or waits for, or a token.
create table perdure.slots (
    run      bigint not null,
    number   bigint not null,  -- by which the run knows it
    lim      bigint not null,
    ask      bigint not null,  -- counts the asks of the limit
    since    bigint,
    held     boolean not null, -- the run has it
    due      bigint,           -- the time of a token, by the clock of this database
    priority int not null,
    share    text not null,
    turn     bigint not null,  -- the round in which its share gets a slot
    came     bigint not null default 0, -- the time by which those of a share are in order
    primary key (run, number)
);

create index slots_tokens on perdure.slots (lim, due) where due is not null;
create index slots_line on perdure.slots (lim, priority desc, turn, ask) where not held;
create index slots_share on perdure.slots (lim, priority, share, came, turn) where not held;

-- Sends runs the messages that they have slots. The messages count as not given to their engines.
-- Returns how many it has sent.
create function perdure.grant_slots(p_at bigint, p_runs bigint[], p_numbers bigint[]) returns bigint language plpgsql as $$
declare
    sent bigint;
begin
    with granted as (
        select run, number, row_number() over (partition by run order by place) as nth
        from unnest(p_runs, p_numbers) with ordinality as g (run, number, place)),
    told as (
        update perdure.heads h set mail = h.mail + g.count, wake = case when h.owner = 0 and (h.wake is null or h.wake > p_at) then p_at else h.wake end
        from (select run, count(*) as count from unnest(p_runs) as g (run) group by run order by run) g
        where h.number = any(array[g.run]) and num_nulls(h.ended) = 1
        returning h.number, h.mail - g.count as before, coalesce(h.inbox, h.number) as box, coalesce(nullif(h.chain, 0), h.number) as line)
    insert into perdure.messages (holder, number, chain, kind, name, key, at)
    select t.box, t.before + g.nth, t.line, 64, 'perdure:slot', g.number::text, p_at
    from granted g join told t on t.number = g.run;
    get diagnostics sent = row_count;
    return sent;
end $$;

-- Gives the free slots of limits to those in line. All but the slot that is asked for just now get
-- a message. Returns the number of messages.
create function perdure.give_slots(p_at bigint, p_lims bigint[], p_run bigint, p_number bigint) returns bigint language plpgsql as $$
declare
    lims bigint[];
    runs bigint[];
    numbers bigint[];
begin
    select array_agg(l.id), array_agg(s.run), array_agg(s.number) from (
        select l.id, l.most, l.held from perdure.limits l
        where l.id = any(p_lims) and (l.most = 0 or l.held < l.most) order by (l.name, l.key)) l
    cross join lateral (
        select o.run, o.number from perdure.slots o where o.lim = l.id and not o.held
        order by o.priority desc, o.turn, o.ask limit case when l.most > 0 then l.most - l.held end) s
    into lims, runs, numbers;
    if lims is null then
        return 0;
    end if;
    update perdure.slots s set held = true from unnest(runs, numbers) as g (run, number)
    where s.run = any(array[g.run]) and s.number = any(array[g.number]);
    update perdure.limits l set held = l.held + g.count
    from (select lim, count(*) as count from unnest(lims) as g (lim) group by lim) g where l.id = any(array[g.lim]);
    select array_agg(g.run order by g.place), array_agg(g.number order by g.place)
    from unnest(runs, numbers) with ordinality as g (run, number, place)
    where g.run <> p_run or g.number <> p_number into runs, numbers;
    return perdure.grant_slots(p_at, runs, numbers);
end $$;

-- Returns the limit of a name and key, locked, and makes it if there is none.
create function perdure.limit_of(p_name text, p_key text) returns bigint language plpgsql as $$
declare
    found_id bigint;
begin
    loop
        select id from perdure.limits where name = p_name and key = p_key for update into found_id;
        exit when found;
        insert into perdure.limits (name, key) values (p_name, p_key) on conflict do nothing;
    end loop;
    return found_id;
end $$;

-- Locks the limits whose slots the runs that end may have. No limit begins to count runs meanwhile:
-- it would give a slot to a run that is about to end.
create function perdure.lock_ending(p_lock int, p_runs bigint[]) returns void language plpgsql as $$
begin
    perform pg_advisory_xact_lock_shared(p_lock, 0);
    perform from perdure.limits l where l.id = any (array(select s.lim from perdure.slots s where s.run = any(p_runs)))
    order by (l.name, l.key) for update;
end $$;

-- Locks the limits that a group asks for, frees slots of or changes, in order of their names, before
-- the group locks anything else. If one of them begins to count runs, no run ends meanwhile.
create function perdure.lock_limits(p_lock int, p_counts boolean, p_runs bigint[], p_names text[], p_keys text[], p_adjusted text[])
returns void language plpgsql as $$
declare
    asked bigint[];
begin
    if p_counts then
        perform pg_advisory_xact_lock(p_lock, 0);
    else
        perform pg_advisory_xact_lock_shared(p_lock, 0);
    end if;
    loop
        if cardinality(p_names) = 1 then -- the usual case
            asked := array(select o.id from perdure.limits o where o.name = p_names[1] and o.key = p_keys[1]);
        else
            asked := array(select o.id from unnest(p_names, p_keys) as a (name, key)
                join perdure.limits o on o.name = any(array[a.name]) and o.key = any(array[a.key]));
        end if;
        exit when cardinality(asked) >= coalesce(cardinality(p_names), 0);
        insert into perdure.limits (name, key) select a.name, a.key from unnest(p_names, p_keys) as a (name, key) order by 1, 2 on conflict do nothing;
    end loop;
    if cardinality(p_adjusted) > 0 then
        asked := asked || array(select o.id from perdure.limits o where o.name = any(p_adjusted));
    end if;
    perform from perdure.limits l where l.id = any (array(select s.lim from perdure.slots s where s.run = any(p_runs)) || asked)
    order by (l.name, l.key) for update;
end $$;

-- Returns a time, or the last one there is if it is later.
create function perdure.capped(n numeric) returns bigint language sql immutable as $$
    select least(n, 9223372036854775807)::bigint
$$;

-- Gives a bucket other bounds, and the tokens that wait for their times other times. The bucket is
-- empty then, and gains its next token after those that wait.
create function perdure.refill(p_at bigint, p_clock bigint, p_lim bigint, p_every bigint, p_burst bigint) returns bigint language plpgsql as $$
declare
    token record;
    waiting bigint := 0;
    told bigint := 0;
begin
    for token in select run, number from perdure.slots where lim = p_lim and due > p_clock order by ask loop
        waiting := waiting + 1;
        update perdure.slots set due = perdure.capped(p_clock + waiting::numeric * p_every) where run = token.run and number = token.number;
        told := told + perdure.grant_slots(p_at, array[token.run], array[token.number]);
    end loop;
    update perdure.limits set every = p_every, burst = p_burst, clock = p_clock, "full" = perdure.capped(p_clock + (waiting + p_burst)::numeric * p_every) where id = p_lim;
    return told;
end $$;

-- Returns when a bucket that gets other numbers is full. It keeps its tokens, as far as it may have
-- them, or the time of the last token that was given for later.
create function perdure.renumbered(p_full bigint, p_clock bigint, p_every bigint, p_burst bigint, n_every bigint, n_burst bigint)
returns bigint language sql immutable as $$
    select case
        when p_every is null or (p_every, p_burst) = (n_every, n_burst) then p_full
        when p_full - p_burst::numeric * p_every >= p_clock
        then perdure.capped(p_full - p_burst::numeric * p_every + n_burst::numeric * n_every)
        else perdure.capped(p_clock + n_burst::numeric * n_every
            - least(floor((p_clock - p_full + p_burst::numeric * p_every) * n_every / p_every), n_burst::numeric * n_every))
    end
$$;

-- Puts in order, within each of its shares, the line of limits from a time on: those that came first
-- get the first of the places.
create function perdure.sort_line(p_lims bigint[], p_priorities int[], p_shares text[], p_came bigint[]) returns void language sql as $$
    with line as materialized (
        select s.run, s.number, s.turn, s.ask, a.nth as line,
            row_number() over (partition by a.nth order by s.came, s.turn) as nth, row_number() over (partition by a.nth order by s.turn) as place
        from unnest(p_lims, p_priorities, p_shares, p_came) with ordinality as a (lim, priority, share, came, nth)
        cross join lateral (
            select * from perdure.slots w where w.lim = a.lim and not w.held and w.priority = a.priority and w.share = a.share and w.came >= a.came offset 0) s)
    update perdure.slots s set turn = p.turn, ask = p.ask
    from line l join line p on p.line = l.line and p.place = l.nth
    where l.place <> l.nth and s.run = any(array[l.run]) and s.number = any(array[l.number])
$$;

-- Answers the asks of a group at once if all of them are new, and of each limit as many slots are
-- free as the group asks for, or none. Otherwise it gives nothing and returns null. It returns which
-- of the limits have free slots. a_runs is the number of runs that ask, and a_unsure are those that
-- this group may not have made. The group asks l_count times for a limit, and a_limit is the place
-- of an ask's limit among them.
create function perdure.answer_all(
    p_at bigint, a_runs int, a_unsure bigint[], a_run bigint[], a_slot bigint[], a_limit int[], a_priority int[], a_share text[], a_came bigint[],
    l_name text[], l_key text[], l_most bigint[], l_revision bigint[], l_count bigint[])
returns boolean[] language plpgsql as $$
declare
    ids bigint[];
    counts bigint[];
    given bigint[];
    is_free boolean[];
begin
    if cardinality(a_unsure) > 0 and (
        exists (select from unnest(a_unsure) as a (number) where (select true from perdure.heads h where h.number = a.number) is null)
        or exists (select from unnest(a_run, a_slot) as a (run, slot) where (select true from perdure.slots s where s.run = a.run and s.number = a.slot))) then
        return null;
    end if;
    with counted as (
        update perdure.limits l set most = a.most, held = l.held + case when a.fits then a.count else 0 end, asks = a.asks + cardinality(a_run),
            revision = case when a.asks = 0 then a.revision else l.revision end
        from (
            select o.id, o.asks, a.*, a.most = 0 or o.held + a.count <= a.most as fits
            from unnest(l_name, l_key, l_most, l_revision, l_count) with ordinality as a (name, key, most, revision, count, nth)
            cross join lateral (select * from perdure.limits m where m.name = a.name and m.key = a.key offset 0) o
            where o.most = a.most and (a.most = 0 or o.held + a.count <= a.most or o.held >= a.most)
                or o.asks = 0 and (a.most = 0 or a.count <= a.most)) a
        where l.id = any(array[a.id]) returning a.*)
    select array_agg(id order by nth), array_agg(asks order by nth), array_agg(fits order by nth), array_agg(case when fits then count else 0 end order by nth)
    from counted into ids, counts, is_free, given;
    if cardinality(ids) < cardinality(l_name) or ids is null or not true = all(is_free) and a_runs < cardinality(a_run) then
        update perdure.limits l set held = l.held - a.given from unnest(ids, given) as a (id, given) where l.id = any(array[a.id]);
        return null;
    end if;
    if true = all(is_free) then
        insert into perdure.slots (run, number, lim, ask, since, held, priority, share, turn)
        select a.run, a.slot, ids[a.lim], counts[a.lim] + a.nth, p_at, true, a.priority, a.share, 0
        from unnest(a_run, a_slot, a_limit, a_priority, a_share) with ordinality as a (run, slot, lim, priority, share, nth);
    else
        with asked as materialized (
            select a.*, ids[a.lim] as id, row_number() over share as place, max(a.came) over (share rows unbounded preceding) as latest
            from unnest(a_run, a_slot, a_limit, a_priority, a_share, a_came) with ordinality as a (run, slot, lim, priority, share, came, nth)
            window share as (partition by a.lim, a.priority, a.share order by a.nth)),
        shares as materialized (
            select a.*, last.came as latest, greatest(last.turn + 1, coalesce((
                select o.turn from perdure.slots o where o.lim = a.id and not o.held and o.priority = a.priority order by o.priority desc, o.turn limit 1), 1)) as turn
            from (select distinct id, lim, priority, share from asked where not is_free[lim]) a
            left join lateral (
                select o.turn, o.came from perdure.slots o where o.lim = a.id and not o.held and o.priority = a.priority and o.share = a.share
                order by o.came desc, o.turn desc limit 1) last on true)
        insert into perdure.slots (run, number, lim, ask, since, held, priority, share, turn, came)
        select a.run, a.slot, a.id, counts[a.lim] + a.nth, p_at, is_free[a.lim], a.priority, a.share, coalesce(s.turn + a.place - 1, 0),
            coalesce(a.came, greatest(s.latest, a.latest), -9223372036854775808)
        from asked a left join shares s on s.lim = a.lim and s.priority = a.priority and s.share = a.share;
    end if;
    if false = any(is_free) then
        perform perdure.sort_line(array_agg(id), array_agg(priority), array_agg(share), array_agg(came)) from (
            select ids[lim] as id, priority, share, min(came) as came from unnest(a_limit, a_priority, a_share, a_came) as a (lim, priority, share, came)
            where came is not null and not is_free[lim] group by lim, priority, share) a;
    end if;
    return is_free;
end $$;

-- Does the work of a group that is about limits: frees slots, changes limits, gives what is free,
-- and answers asks. It returns the number of messages, and the answers with the waits of tokens, or
-- nulls if it grants all. The asks are described as for answer_all. If those of a limit differ in
-- their numbers, these are in a_most, a_every, a_burst and a_revision.
create function perdure.limit_work(
    p_at bigint, p_free_run bigint[], p_free_number bigint[], p_ended bigint[], p_inherited bigint[],
    p_name text[], p_most bigint[], p_every bigint[], p_burst bigint[], p_revision bigint[], p_workflow text[], p_slot bigint[], p_pending smallint,
    a_runs int, a_unsure bigint[], a_run bigint[], a_slot bigint[], a_limit int[], a_priority int[], a_share text[], a_came bigint[],
    l_name text[], l_key text[], l_most bigint[], l_revision bigint[], l_count bigint[],
    a_most bigint[], a_every bigint[], a_burst bigint[], a_revision bigint[],
    out told bigint, out answers int[], out waits bigint[]) language plpgsql as $$
declare
    lims bigint[];           -- of slots that are freed
    slots boolean[];         -- whether they were held
    first bigint;            -- the least of lims
    last bigint;             -- the greatest
    freed bigint := 0;       -- how many were held
    touched bigint[];
    idle boolean := false;   -- nobody may have a limit any more
    line boolean := false;   -- somebody may wait for a slot that is free
    now_here constant bigint := (extract(epoch from clock_timestamp()) * 1000000)::bigint * 1000;
    has record;
    got record;
    a record;
    i int;
    id_here bigint;
    refused bigint := 0;
    round bigint;
    is_free boolean[];       -- of the limits that are asked for; null: the asks are answered one by one
    answer int;
    wait bigint;
begin
    told := 0;
    if cardinality(p_ended) > 0 then
        with gone as (
            delete from perdure.slots s where s.run = any(p_ended) and (s.number > 0 or s.run <> all(coalesce(p_inherited, array[]::bigint[])))
            returning s.lim, s.held and s.due is null as held)
        select array_agg(lim), array_agg(held), min(lim), max(lim), count(*) filter (where held) from gone into lims, slots, first, last, freed;
    end if;
    -- The usual case, with one statement for the limit: new runs ask for it, it has slots left, and
    -- those that are freed are of it, too. Nobody waits for a limit that has slots left.
    if cardinality(l_name) = 1 and a_revision is null and p_free_run is null and a_unsure is null then
        update perdure.limits l set most = l_most[1], held = l.held - freed + l_count[1], asks = l.asks + cardinality(a_run),
            revision = case when l.asks = 0 then l_revision[1] else l.revision end
        where l.name = l_name[1] and l.key = l_key[1] and (first is null or first = l.id and last = l.id)
            and (l.most = l_most[1] or l.asks = 0) and (l.most = 0 or l.held < l.most) and (l_most[1] = 0 or l.held - freed + l_count[1] <= l_most[1])
        returning l.id, l.asks - cardinality(a_run) as asks into has;
        if found then
            insert into perdure.slots (run, number, lim, ask, since, held, priority, share, turn)
            select n.run, n.slot, has.id, has.asks + n.nth, p_at, true, n.priority, n.share, 0
            from unnest(a_run, a_slot, a_priority, a_share) with ordinality as n (run, slot, priority, share, nth);
            return;
        end if;
    end if;
    if cardinality(p_free_run) > 0 then
        with gone as (
            delete from perdure.slots s using unnest(p_free_run, p_free_number) as f (run, number)
            where s.run = any(array[f.run]) and s.number = any(array[f.number]) returning s.lim, s.held and s.due is null as held)
        select lims || array_agg(lim), slots || array_agg(held) from gone into lims, slots;
    end if;
    if cardinality(lims) > 0 then
        with less as (
            update perdure.limits l set held = l.held - g.held
            from (select lim, count(*) filter (where held) as held from unnest(lims, slots) as g (lim, held) group by lim) g
            where l.id = any(array[g.lim]) returning l.id, l.held, (l.most = 0 or l.held < l.most)
                and (select true from perdure.slots o where o.lim = l.id and not o.held limit 1) is not null as line)
        select array_agg(l.id), bool_or(l.held = 0), bool_or(l.line) from less l into touched, idle, line;
    end if;
    for i in 1 .. coalesce(cardinality(p_name), 0) loop
        if p_workflow[i] <> '' then
            id_here := 0;
            for got in select number from perdure.heads h where h.workflow = p_workflow[i] and h.ended is null and h.number > 0 and h.status <> p_pending
                and (h.number <> all(coalesce(p_ended, array[]::bigint[])) or h.number = any(p_inherited))
                and (select true from perdure.slots o where o.run = h.number and (o.number = p_slot[i] or o.number < 0 and not o.held) limit 1) is null
                order by number loop
                if id_here = 0 then
                    id_here := perdure.limit_of(p_name[i], '');
                    perform from perdure.limits where id = id_here and revision > p_revision[i];
                    exit when found;
                end if;
                update perdure.limits set held = held + 1, asks = asks + 1 where id = id_here returning asks into round;
                insert into perdure.slots (run, number, lim, ask, since, held, priority, share, turn) values (got.number, p_slot[i], id_here, round, p_at, true, 0, '', 0);
            end loop;
        end if;
        -- a limit without asks was made for those of the group, which come after this
        for has in select id, revision from perdure.limits where name = p_name[i] and revision <= p_revision[i] and asks > 0 order by key loop
            update perdure.limits set most = p_most[i], revision = p_revision[i] where id = has.id;
            touched := touched || has.id;
            idle := true;
            line := true;
            if p_every[i] > 0 and has.revision < p_revision[i] then
                told := told + perdure.refill(p_at, now_here, has.id, p_every[i], p_burst[i]);
            end if;
        end loop;
    end loop;
    if line then
        told := told + perdure.give_slots(p_at, touched, 0, 0);
    end if;
    if cardinality(a_run) > 0 and a_revision is null then
        is_free := perdure.answer_all(p_at, a_runs, a_unsure, a_run, a_slot, a_limit, a_priority, a_share, a_came, l_name, l_key, l_most, l_revision, l_count);
    end if;
    if is_free is not null then
        if false = any(is_free) then
            answers := array(select case when is_free[n.lim] then 1 else 2 end from unnest(a_limit) with ordinality as n (lim, nth) order by n.nth);
        end if;
    elsif cardinality(a_run) > 0 then
        touched := touched || array(select o.id from unnest(l_name, l_key) as n (name, key)
            cross join lateral (select * from perdure.limits m where m.name = n.name and m.key = n.key offset 0) o);
        idle := true;
        for a in select n.run, n.slot, l_name[n.lim] as name, l_key[n.lim] as key, n.priority, n.share, n.came, coalesce(n.most, l_most[n.lim]) as most,
                coalesce(n.every, 0) as every, coalesce(n.burst, 0) as burst, coalesce(n.revision, l_revision[n.lim]) as revision, n.nth
            from unnest(a_run, a_slot, a_limit, a_priority, a_share, a_came, a_most, a_every, a_burst, a_revision)
            with ordinality as n (run, slot, lim, priority, share, came, most, every, burst, revision, nth) order by n.nth loop
            answers[a.nth] := 0;
            waits[a.nth] := 0;
            answer := 0;
            wait := 0;
            perform from perdure.heads where number = a.run;
            if not found or a.run = refused and a.slot < 0 then
                continue;
            end if;
            select lim, held, due from perdure.slots where run = a.run and number = a.slot into got;
            if not found then
                id_here := perdure.limit_of(a.name, a.key);
                select * from perdure.limits where id = id_here into has;
                if has.asks = 0 then
                    has.revision := a.revision;
                    update perdure.limits set revision = has.revision where id = id_here and revision <> has.revision;
                end if;
                if has.revision > a.revision then
                    a.most := has.most;
                    a.every := case when a.every > 0 then coalesce(has.every, a.every) else 0 end;
                    a.burst := coalesce(has.burst, a.burst);
                end if;
                if a.every > 0 then
                    has.full := coalesce(has.full, now_here);
                    if now_here < has.clock then
                        has.full := has.full + now_here - has.clock;
                    end if;
                    has.full := perdure.renumbered(greatest(has.full, now_here), now_here, has.every, has.burst, a.every, a.burst);
                    update perdure.limits set every = a.every, burst = a.burst, clock = now_here, "full" = perdure.capped(has.full::numeric + a.every), asks = has.asks + 1 where id = id_here;
                    insert into perdure.slots (run, number, lim, ask, since, held, due, priority, share, turn)
                    values (a.run, a.slot, id_here, has.asks + 1, p_at, true, greatest(has.full - (a.burst - 1)::numeric * a.every, now_here)::bigint, a.priority, a.share, 0);
                    touched := touched || array(select o.id from perdure.limits o where o.full <= now_here order by o.full limit 8 for update skip locked);
                elsif has.asks = 0 or has.most = a.most and (has.most = 0 or has.held < has.most) then
                    -- a slot is free, so nobody waits
                    update perdure.limits set most = a.most, held = has.held + 1, asks = has.asks + 1 where id = id_here;
                    insert into perdure.slots (run, number, lim, ask, since, held, priority, share, turn)
                    values (a.run, a.slot, id_here, has.asks + 1, p_at, true, a.priority, a.share, 0);
                    answers[a.nth] := 1;
                    continue;
                else
                    update perdure.limits set asks = has.asks + 1 where id = id_here;
                    select turn, came from perdure.slots where lim = id_here and not held and priority = a.priority and share = a.share order by came desc, turn desc limit 1 into got;
                    round := greatest(got.turn + 1, coalesce((select turn from perdure.slots where lim = id_here and not held and priority = a.priority order by turn limit 1), 1));
                    insert into perdure.slots (run, number, lim, ask, since, held, priority, share, turn, came)
                    values (a.run, a.slot, id_here, has.asks + 1, p_at, false, a.priority, a.share, round, coalesce(a.came, got.came, -9223372036854775808));
                    if got.came > a.came then
                        perform perdure.sort_line(array[id_here], array[a.priority], array[a.share], array[a.came]);
                    end if;
                end if;
                select lim, held, due from perdure.slots where run = a.run and number = a.slot into got;
            end if;
            if got.due is not null then
                wait := greatest(got.due - now_here, 0);
                answer := case when wait > 0 then 3 else 1 end;
            else
                update perdure.limits set most = a.most where id = got.lim and name = a.name and key = a.key and revision <= a.revision and most <> a.most;
                told := told + perdure.give_slots(p_at, array[got.lim], a.run, a.slot);
                select held from perdure.slots where run = a.run and number = a.slot into got.held;
                answer := case when got.held then 1 else 2 end;
            end if;
            if answer <> 1 and a.slot < 0 then
                refused := a.run;
            end if;
            answers[a.nth] := answer;
            waits[a.nth] := wait;
        end loop;
    end if;
    if idle then
        delete from perdure.limits l where l.id = any(touched) and l.held = 0 and (l.full is null or l.full <= now_here)
            and (select true from perdure.slots o where o.lim = l.id and not o.held limit 1) is null
            and (select true from perdure.slots o where o.lim = l.id and o.due is not null limit 1) is null;
    end if;
end $$;
