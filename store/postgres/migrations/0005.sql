-- Limits: what holds work back.

-- The slots of one key of a limit, or its bucket of tokens.
create table perdure.limits (
    id    bigint generated always as identity primary key,
    name  text not null,
    key   text not null,
    most  bigint not null default 0, -- slots; 0 for as many as are asked for
    held  bigint not null default 0,
    asks  bigint not null default 0, -- so far
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
    primary key (run, number)
);

create index slots_tokens on perdure.slots (lim, due) where due is not null;
create index slots_line on perdure.slots (lim, priority desc, turn, ask) where not held;
create index slots_share on perdure.slots (lim, priority, share, turn) where not held;

-- Sends a run the message that it has a slot. The message counts as not given to its engine.
create function perdure.grant_slot(p_at bigint, p_run bigint, p_number bigint) returns bigint language plpgsql as $$
declare
    to_run record;
begin
    update perdure.heads set mail = mail + 1, wake = case when owner = 0 and (wake is null or wake > p_at) then p_at else wake end
    where number = p_run and ended is null
    returning mail, coalesce(inbox, number) as box, coalesce(nullif(chain, 0), number) as line into to_run;
    if not found then
        return 0;
    end if;
    insert into perdure.messages (holder, number, chain, kind, name, key, at)
    values (to_run.box, to_run.mail, to_run.line, 64, 'perdure:slot', p_number::text, p_at);
    return 1;
end $$;

-- Gives the free slots of a limit to those in line. All but the slot that is asked for just now get
-- a message. Returns the number of messages.
create function perdure.give_slots(p_at bigint, p_lim bigint, p_run bigint, p_number bigint) returns bigint language plpgsql as $$
declare
    lim_row record;
    first record;
    has bigint;
    told bigint := 0;
begin
    select most, held from perdure.limits where id = p_lim into lim_row;
    has := lim_row.held;
    while lim_row.most = 0 or has < lim_row.most loop
        select run, number from perdure.slots where lim = p_lim and not held order by priority desc, turn, ask limit 1 into first;
        exit when not found;
        update perdure.slots set held = true where run = first.run and number = first.number;
        has := has + 1;
        if first.run <> p_run or first.number <> p_number then
            told := told + perdure.grant_slot(p_at, first.run, first.number);
        end if;
    end loop;
    if has <> lim_row.held then
        update perdure.limits set held = has where id = p_lim;
    end if;
    return told;
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
    order by l.name, l.key for update;
end $$;

-- Locks the limits that a group asks for, frees slots of or changes, in order of their names, before
-- the group locks anything else. If one of them begins to count runs, no run ends meanwhile.
create function perdure.lock_limits(p_lock int, p_counts boolean, p_runs bigint[], p_names text[], p_keys text[], p_adjusted text[])
returns void language plpgsql as $$
begin
    if p_counts then
        perform pg_advisory_xact_lock(p_lock, 0);
    else
        perform pg_advisory_xact_lock_shared(p_lock, 0);
    end if;
    insert into perdure.limits (name, key)
    select distinct a.name, a.key from unnest(p_names, p_keys) as a (name, key)
    where not exists (select from perdure.limits l where l.name = a.name and l.key = a.key)
    order by 1, 2 on conflict do nothing;
    perform from perdure.limits l where l.id = any (array(
        select s.lim from perdure.slots s where s.run = any(p_runs)
        union all
        select o.id from unnest(p_names, p_keys) as a (name, key) join perdure.limits o on o.name = a.name and o.key = a.key
        union all
        select o.id from perdure.limits o where o.name = any(p_adjusted)))
    order by l.name, l.key for update;
end $$;

-- Gives a bucket other bounds, and the tokens that wait for their times other times. The bucket is
-- empty then, and gains its next token after those that wait.
create function perdure.refill(p_at bigint, p_clock bigint, p_lim bigint, p_every bigint, p_burst bigint) returns bigint language plpgsql as $$
declare
    token record;
    waiting bigint := 0;
    told bigint := 0;
begin
    for token in select run, number from perdure.slots where lim = p_lim and due > p_clock order by due, ask loop
        waiting := waiting + 1;
        update perdure.slots set due = p_clock + waiting * p_every where run = token.run and number = token.number;
        told := told + perdure.grant_slot(p_at, token.run, token.number);
    end loop;
    update perdure.limits set every = p_every, burst = p_burst, clock = p_clock, "full" = p_clock + (waiting + p_burst) * p_every where id = p_lim;
    return told;
end $$;

-- Does the work of a group that is about limits: frees slots, changes limits, gives what is free,
-- and answers asks. It returns a row for each ask, and as place 0 the number of messages.
create function perdure.limit_work(
    p_at bigint, p_free_run bigint[], p_free_number bigint[], p_ended bigint[], p_inherited bigint[],
    p_name text[], p_most bigint[], p_every bigint[], p_burst bigint[], p_workflow text[], p_slot bigint[], p_pending smallint,
    a_run bigint[], a_slot bigint[], a_name text[], a_key text[], a_most bigint[], a_priority int[], a_share text[], a_every bigint[], a_burst bigint[],
    p_revision bigint[], a_revision bigint[])
returns table (place int, answer int, wait bigint) language plpgsql as $$
declare
    touched bigint[] := '{}';
    more bigint[];
    told bigint := 0;
    now_here constant bigint := (extract(epoch from clock_timestamp()) * 1000000)::bigint * 1000;
    has record;
    got record;
    i int;
    id_here bigint;
    refused bigint := 0;
    round bigint;
begin
    with gone as (
        delete from perdure.slots s using unnest(p_free_run, p_free_number) as f (run, number)
        where s.run = f.run and s.number = f.number returning s.lim, s.held and s.due is null as held),
    less as (
        update perdure.limits l set held = l.held - g.held
        from (select lim, count(*) filter (where gone.held) as held from gone group by lim) g where l.id = g.lim returning l.id)
    select coalesce(array_agg(id), '{}') from less into more;
    touched := more;
    with gone as (
        delete from perdure.slots s where s.run = any(p_ended) and (s.number > 0 or s.run <> all(coalesce(p_inherited, array[]::bigint[])))
        returning s.lim, s.held and s.due is null as held),
    less as (
        update perdure.limits l set held = l.held - g.held
        from (select lim, count(*) filter (where gone.held) as held from gone group by lim) g where l.id = g.lim returning l.id)
    select coalesce(array_agg(id), '{}') from less into more;
    touched := touched || more;
    for i in 1 .. coalesce(cardinality(p_name), 0) loop
        if p_workflow[i] <> '' then
            id_here := 0;
            for got in select number from perdure.heads h where h.workflow = p_workflow[i] and h.ended is null and h.number > 0 and h.status <> p_pending
                and (h.number <> all(coalesce(p_ended, array[]::bigint[])) or h.number = any(p_inherited))
                and not exists (select from perdure.slots o where o.run = h.number and o.number = p_slot[i]) order by number loop
                if id_here = 0 then
                    id_here := perdure.limit_of(p_name[i], '');
                    perform from perdure.limits where id = id_here and revision > p_revision[i];
                    exit when found;
                end if;
                update perdure.limits set held = held + 1, asks = asks + 1 where id = id_here returning asks into round;
                insert into perdure.slots (run, number, lim, ask, since, held, priority, share, turn) values (got.number, p_slot[i], id_here, round, p_at, true, 0, '', 0);
            end loop;
        end if;
        for has in select id, revision from perdure.limits where name = p_name[i] and revision <= p_revision[i] order by key loop
            update perdure.limits set most = p_most[i], revision = p_revision[i] where id = has.id;
            touched := touched || has.id;
            if p_every[i] > 0 and has.revision < p_revision[i] then
                told := told + perdure.refill(p_at, now_here, has.id, p_every[i], p_burst[i]);
            end if;
        end loop;
    end loop;
    for has in select id from perdure.limits where id = any(touched) order by name, key loop
        told := told + perdure.give_slots(p_at, has.id, 0, 0);
    end loop;
    for i in 1 .. coalesce(cardinality(a_run), 0) loop
        place := i;
        answer := 0;
        wait := 0;
        perform from perdure.heads where number = a_run[i];
        if not found or a_run[i] = refused and a_slot[i] < 0 then
            id_here := perdure.limit_of(a_name[i], a_key[i]);
            touched := touched || id_here;
            return next;
            continue;
        end if;
        select lim, held, due from perdure.slots where run = a_run[i] and number = a_slot[i] into got;
        if not found then
            id_here := perdure.limit_of(a_name[i], a_key[i]);
            touched := touched || id_here;
            select * from perdure.limits where id = id_here into has;
            if has.asks = 0 then
                has.revision := a_revision[i];
                update perdure.limits set revision = has.revision where id = id_here and revision <> has.revision;
            end if;
            if has.revision > a_revision[i] then
                a_most[i] := has.most;
                a_every[i] := case when a_every[i] > 0 then coalesce(has.every, a_every[i]) else 0 end;
                a_burst[i] := coalesce(has.burst, a_burst[i]);
            end if;
            if a_every[i] > 0 then
                has.full := coalesce(has.full, now_here);
                if now_here < has.clock then
                    has.full := has.full + now_here - has.clock;
                end if;
                has.full := greatest(has.full, now_here);
                update perdure.limits set every = a_every[i], burst = a_burst[i], clock = now_here, "full" = has.full + a_every[i], asks = has.asks + 1 where id = id_here;
                insert into perdure.slots (run, number, lim, ask, since, held, due, priority, share, turn)
                values (a_run[i], a_slot[i], id_here, has.asks + 1, p_at, true, greatest(has.full - (a_burst[i] - 1) * a_every[i], now_here), a_priority[i], a_share[i], 0);
                touched := touched || array(select o.id from perdure.limits o where o.full <= now_here order by o.full limit 8 for update skip locked);
            elsif has.asks = 0 or has.most = a_most[i] and (has.most = 0 or has.held < has.most) then
                -- a slot is free, so nobody waits
                update perdure.limits set most = a_most[i], held = has.held + 1, asks = has.asks + 1 where id = id_here;
                insert into perdure.slots (run, number, lim, ask, since, held, priority, share, turn)
                values (a_run[i], a_slot[i], id_here, has.asks + 1, p_at, true, a_priority[i], a_share[i], 0);
                answer := 1;
                return next;
                continue;
            else
                update perdure.limits set asks = has.asks + 1 where id = id_here;
                round := greatest(
                    coalesce((select turn from perdure.slots where lim = id_here and not held and priority = a_priority[i] order by turn limit 1), 1),
                    coalesce((select turn + 1 from perdure.slots where lim = id_here and not held and priority = a_priority[i] and share = a_share[i] order by turn desc limit 1), 1));
                insert into perdure.slots (run, number, lim, ask, since, held, priority, share, turn)
                values (a_run[i], a_slot[i], id_here, has.asks + 1, p_at, false, a_priority[i], a_share[i], round);
            end if;
            select lim, held, due from perdure.slots where run = a_run[i] and number = a_slot[i] into got;
        end if;
        if got.due is not null then
            wait := greatest(got.due - now_here, 0);
            answer := case when wait > 0 then 3 else 1 end;
        else
            update perdure.limits set most = a_most[i] where id = got.lim and name = a_name[i] and key = a_key[i] and revision <= a_revision[i] and most <> a_most[i];
            told := told + perdure.give_slots(p_at, got.lim, a_run[i], a_slot[i]);
            select held from perdure.slots where run = a_run[i] and number = a_slot[i] into got.held;
            answer := case when got.held then 1 else 2 end;
        end if;
        if answer <> 1 and a_slot[i] < 0 then
            refused := a_run[i];
        end if;
        return next;
    end loop;
    delete from perdure.limits l where l.id = any(touched) and l.held = 0 and (l.full is null or l.full <= now_here)
        and not exists (select from perdure.slots o where o.lim = l.id);
    place := 0;
    answer := told;
    wait := 0;
    return next;
end $$;
