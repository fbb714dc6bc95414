-- What the first version of the store keeps, in a schema of its own. Times are
-- nanoseconds since 1970, null for none. Numbers of kinds, statuses and patterns
-- have their names in tables of their own; the views at the end show everything in
-- words. A text that PostgreSQL cannot keep is hexadecimal behind \x.

create table perdure.meta (
    key   text primary key,
    value text not null
);

-- One row for each engine that has joined, has not left and was not taken over. A
-- commit locks its engine's row against being deleted; that is the fence.
create table perdure.engines (
    id     bigint generated always as identity (maxvalue 67108863) primary key, -- as many as numbers of runs have room for
    host   text not null,
    pid    integer not null,
    build  text not null,
    slots  integer not null,     -- how many runs it has at a time
    since  bigint,
    seen   timestamptz not null, -- when it said last that it lives, by the clock of this database
    leased timestamptz not null  -- until when it may write, by the same clock
) with (fillfactor = 50);

-- Engines that were taken over and whose runs are not all free yet.
create table perdure.fallen (
    id  bigint primary key,
    now bigint not null -- from when their runs are due
);

create table perdure.kinds    (kind    smallint primary key, name text not null);
create table perdure.statuses (status  smallint primary key, name text not null);
create table perdure.patterns (pattern smallint primary key, name text not null);

-- One row for each run: what lists and claims read. Room is left in each page, so
-- that a row which is written anew mostly stays where it is.
create table perdure.heads (
    number      bigint primary key, -- engine and count; the run ID is made of it
    chain       bigint not null,    -- the first run of the chain; 0 is the run itself
    parent      bigint not null,    -- the run that started it as a child; 0 for none
    owner       bigint not null,    -- the engine that executes it; 0 for none
    wake        bigint,             -- when it may be claimed
    created     bigint,
    ended       bigint,             -- null while it is open
    last        bigint not null,    -- the entry that ended it
    mail        bigint not null,    -- the messages that were ever posted to it
    given       bigint not null,    -- how many of them its owner was given
    keep        bigint not null,    -- nanoseconds for which it stands for its workflow ID
    seen        bigint not null,    -- the last entry when the last crash was counted
    crashes     integer not null,
    pattern     smallint not null,
    status      smallint not null,
    claimed     boolean not null,   -- was claimed, and the row was not written since
    workflow_id text not null,
    workflow    text not null,
    cause       text not null
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1);

-- Who has a workflow ID: the open run, of which there is one at most, else those
-- that ended last.
create unique index heads_open on perdure.heads (workflow_id) where ended is null;
create index heads_ended on perdure.heads (workflow_id, ended) where ended is not null;

-- What is due, and what an engine owns.
create index heads_due on perdure.heads (workflow, wake, number) where owner = 0 and ended is null;
create index heads_owned on perdure.heads (owner) where owner > 0 and ended is null;

-- Whose owner is to be given messages: hardly ever any.
create index heads_unseen on perdure.heads (owner) where mail > given and owner > 0 and ended is null;
create index heads_by_parent on perdure.heads (parent) where parent > 0;
-- What retention looks at.
create index heads_over on perdure.heads (status, ended) where ended is not null;

-- One row for each fact.
create table perdure.entries (
    run    bigint not null,
    seq    bigint not null,
    at     bigint,
    took   bigint not null,
    scope  bigint,
    spill  bigint,
    occ    integer not null,
    kind   smallint not null,
    status smallint not null,
    name   text not null,
    key    text,
    detail text,
    data   bytea,
    primary key (run, seq)
) with (autovacuum_vacuum_insert_scale_factor = 0.1);

-- Which payloads have a name.
create index entries_by_spill on perdure.entries (spill) where spill is not null;

create table perdure.spilled (
    id   bigint primary key,
    data bytea not null
);

-- One row for each message that has come to a run. One that was taken has no
-- payload any more, which is in the entry that took it.
create table perdure.messages (
    run    bigint not null,
    number bigint not null, -- the run's first message is 1
    chain  bigint not null, -- within which an id counts once
    taken  bigint,          -- the entry that took it
    at     bigint,
    scope  bigint,
    spill  bigint,
    occ    integer,
    kind   smallint not null,
    id     text,            -- the sender's; null without
    name   text,
    key    text,
    detail text,
    data   bytea,
    primary key (run, number)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);

create unique index messages_by_id on perdure.messages (chain, id) where id is not null;
create index messages_by_spill on perdure.messages (spill) where spill is not null;

-- Messages for a workflow ID that no open run had.
create table perdure.unrouted (
    number      bigint generated always as identity primary key,
    until       bigint not null, -- when it expires
    at          bigint,
    scope       bigint,
    spill       bigint,
    occ         integer,
    kind        smallint not null,
    workflow_id text not null,
    id          text,
    name        text,
    key         text,
    detail      text,
    data        bytea
);

create index unrouted_by_id on perdure.unrouted (workflow_id, id);
create index unrouted_until on perdure.unrouted (until);
create index unrouted_by_spill on perdure.unrouted (spill) where spill is not null;

-- Entries that somebody is to be told of, until he was.
create table perdure.owed (
    number   bigint generated always as identity primary key,
    run      bigint not null,
    seq      bigint not null,
    teller   bigint not null, -- the engine that is to tell; 0 where that is gone
    workflow text not null
) with (autovacuum_vacuum_scale_factor = 0.05);

create index owed_by_run on perdure.owed (run);
create index owed_by_workflow on perdure.owed (workflow, number);

-- Search attributes as they are now.
create table perdure.attributes (
    run   bigint not null,
    name  text not null,
    value text not null,
    primary key (run, name)
);

create index attributes_by_value on perdure.attributes (name, value);

-- What shows numbers in words: the ID of a run, a time, and a payload as text, or in
-- hexadecimal where it is none.
create function perdure.run_id(number bigint) returns text language sql stable as
$$ select value || '-' || (number >> 37) || '-' || (number & 137438953471) from perdure.meta where key = 'database' $$;

create function perdure.moment(nanoseconds bigint) returns timestamptz language sql immutable as
$$ select 'epoch'::timestamptz + make_interval(secs => nanoseconds / 1e9) $$;

create function perdure.legible(data bytea) returns text language plpgsql stable as $$
begin
    return convert_from(data, 'UTF8');
exception when others then
    return data::text;
end
$$;

create view perdure.runs as
select
    perdure.run_id(h.number) as run,
    h.workflow_id,
    h.workflow,
    coalesce(p.name, h.pattern::text) as pattern,
    coalesce(s.name, h.status::text) as status,
    nullif(h.owner, 0) as owner,
    perdure.moment(h.wake) as wake,
    perdure.moment(h.created) as created,
    perdure.moment(h.ended) as ended,
    h.cause,
    h.crashes,
    h.mail,
    (select count(*) from perdure.messages w where w.run = h.number and w.taken is null) as waiting,
    (select json_object_agg(a.name, a.value) from perdure.attributes a where a.run = h.number) as attributes,
    case when h.chain not in (0, h.number) then perdure.run_id(h.chain) end as chain,
    case when h.parent <> 0 then perdure.run_id(h.parent) end as parent,
    h.number
from perdure.heads h
left join perdure.statuses s on s.status = h.status
left join perdure.patterns p on p.pattern = h.pattern;

create view perdure.journal as
select
    perdure.run_id(e.run) as run,
    h.workflow_id,
    e.seq,
    coalesce(k.name, e.kind::text) as kind,
    coalesce(s.name, e.status::text) as status,
    e.scope,
    e.name,
    e.key,
    e.occ,
    perdure.moment(e.at) as at,
    e.took / 1e6 as took_ms,
    perdure.legible(coalesce(e.data, p.data)) as data,
    e.detail,
    e.run as number
from perdure.entries e
left join perdure.heads h on h.number = e.run
left join perdure.spilled p on p.id = e.spill
left join perdure.kinds k on k.kind = e.kind
left join perdure.statuses s on s.status = e.status;

-- Messages that came to a run, then those that wait for one. That of a message which
-- was taken is in the view journal.
create view perdure.inbox as
select
    perdure.run_id(i.run) as run,
    i.workflow_id,
    i.message,
    coalesce(k.name, i.kind::text) as kind,
    i.name,
    i.key,
    i.id,
    perdure.moment(i.at) as at,
    i.taken,
    perdure.moment(i.until) as until,
    perdure.legible(coalesce(i.data, p.data)) as data,
    i.detail,
    i.run as number
from (
    select m.run, h.workflow_id, m.number as message, m.kind, m.name, m.key, m.id, m.at, m.taken, null::bigint as until, m.spill, m.detail, m.data
    from perdure.messages m left join perdure.heads h on h.number = m.run
    union all
    select null, u.workflow_id, u.number, u.kind, u.name, u.key, u.id, u.at, null, u.until, u.spill, u.detail, u.data
    from perdure.unrouted u
) i
left join perdure.spilled p on p.id = i.spill
left join perdure.kinds k on k.kind = i.kind;
