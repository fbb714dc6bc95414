-- What the first version of the store keeps. Times are nanoseconds since 1970,
-- null for none. Numbers of kinds, statuses and patterns have their names in
-- tables of their own; the views at the end show everything in words.

pragma application_id = 0x70657264; -- "perd"

create table meta (
    key   text primary key,
    value any not null
) strict, without rowid;

-- One row for each engine that has joined and not left.
create table engines (
    id    integer primary key autoincrement,
    host  text not null,
    pid   integer not null,
    build text not null,
    since integer
) strict;

create table kinds    (kind    integer primary key, name text not null) strict;
create table statuses (status  integer primary key, name text not null) strict;
create table patterns (pattern integer primary key, name text not null) strict;

-- One row for each run: what lists and claims read.
create table heads (
    number      integer primary key, -- engine and count; the run ID is made of it
    workflow_id text not null,
    workflow    text not null,
    pattern     integer not null,
    status      integer not null,
    owner       integer not null,    -- the engine that executes it; 0 for none
    wake        integer,             -- when it may be claimed
    created     integer,
    ended       integer,             -- null while it is open
    last        integer not null,    -- the entry that ended it
    cause       text not null,
    crashes     integer not null,
    seen        integer not null     -- the last entry when the last crash was counted
) strict;

-- Who has a workflow ID: the open run, of which there is one at most, else those
-- that ended last.
create unique index heads_open on heads (workflow_id) where ended is null;
create index heads_ended on heads (workflow_id, ended) where ended is not null;

-- What is due, and what an engine owns.
create index heads_owned on heads (owner, workflow, wake) where ended is null;

-- One row for each fact. Columns that a plain result does not need are null,
-- which takes one byte each. The payload is last: to read what precedes it
-- costs the same however long it is.
create table entries (
    run    integer not null references heads (number),
    seq    integer not null,
    kind   integer not null,
    status integer,
    scope  integer,
    name   text,
    key    text,
    occ    integer,
    at     integer,
    took   integer,
    spill  integer,
    detail text,
    data   blob,
    primary key (run, seq)
) strict, without rowid;

-- Which payloads have a name.
create index entries_by_spill on entries (spill) where spill is not null;

create table spilled (
    id   integer primary key,
    data blob not null
) strict;

create view runs as
select
    m.value || '-' || (h.number >> 37) || '-' || (h.number & 0x1fffffffff) as run,
    h.workflow_id,
    h.workflow,
    coalesce(p.name, h.pattern) as pattern,
    coalesce(s.name, h.status) as status,
    nullif(h.owner, 0) as owner,
    strftime('%Y-%m-%dT%H:%M:%S', h.wake / 1000000000, 'unixepoch') || printf('.%09dZ', h.wake % 1000000000) as wake,
    strftime('%Y-%m-%dT%H:%M:%S', h.created / 1000000000, 'unixepoch') || printf('.%09dZ', h.created % 1000000000) as created,
    strftime('%Y-%m-%dT%H:%M:%S', h.ended / 1000000000, 'unixepoch') || printf('.%09dZ', h.ended % 1000000000) as ended,
    h.cause,
    h.crashes,
    h.number
from heads h
join meta m on m.key = 'database'
left join statuses s on s.status = h.status
left join patterns p on p.pattern = h.pattern;

-- Payloads are shown as text, and in hexadecimal where they have a zero byte or
-- bytes that are no character.
create view journal as
select
    m.value || '-' || (e.run >> 37) || '-' || (e.run & 0x1fffffffff) as run,
    h.workflow_id,
    e.seq,
    coalesce(k.name, e.kind) as kind,
    coalesce(s.name, e.status) as status,
    e.scope,
    e.name,
    e.key,
    e.occ,
    strftime('%Y-%m-%dT%H:%M:%S', e.at / 1000000000, 'unixepoch') || printf('.%09dZ', e.at % 1000000000) as at,
    e.took / 1e6 as took_ms,
    case
        when instr(coalesce(e.data, p.data), x'00') or cast(coalesce(e.data, p.data) as text) glob '*' || char(0xfffd) || '*'
        then 'x''' || hex(coalesce(e.data, p.data)) || ''''
        else cast(coalesce(e.data, p.data) as text)
    end as data,
    e.detail,
    e.run as number
from entries e
join meta m on m.key = 'database'
left join heads h on h.number = e.run
left join spilled p on p.id = e.spill
left join kinds k on k.kind = e.kind
left join statuses s on s.status = e.status;
