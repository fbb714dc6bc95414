-- Messages, and what else a run needs that does not only go straight ahead.

-- The messages that were ever posted to the run, and how many of them its owner
-- was given.
alter table heads add column mail    integer not null default 0;
alter table heads add column given   integer not null default 0;
alter table heads add column chain   integer not null default 0; -- the first run of the chain; 0 is the run itself
alter table heads add column parent  integer not null default 0; -- the run that started it as a child; 0 for none
alter table heads add column keep    integer not null default 0; -- nanoseconds for which it stands for its workflow ID
alter table heads add column claimed integer not null default 0; -- 1 where it was claimed and the row was not written since

update heads set chain = number;

alter table engines add column slots integer not null default 0; -- how many runs it has at a time

-- Whose owner is to be given messages: hardly ever any.
create index heads_unseen on heads (owner) where mail > given and owner > 0 and ended is null;
create index heads_by_parent on heads (parent) where parent > 0;
-- What retention looks at.
create index heads_over on heads (status, ended) where ended is not null;

-- One row for each message that has come to a run. One that was taken has no
-- payload any more, which is in the entry that took it.
create table messages (
    run    integer not null,
    number integer not null, -- the run's first message is 1
    chain  integer not null, -- within which an id counts once
    id     text,             -- the sender's; null without
    taken  integer,          -- the entry that took it
    kind   integer not null,
    scope  integer,
    name   text,
    key    text,
    occ    integer,
    at     integer,
    spill  integer,
    detail text,
    data   blob,
    primary key (run, number)
) strict, without rowid;

create unique index messages_by_id on messages (chain, id) where id is not null;
create index messages_by_spill on messages (spill) where spill is not null;

-- Messages for a workflow ID that no open run had.
create table unrouted (
    number      integer primary key autoincrement,
    workflow_id text not null,
    until       integer not null, -- when it expires
    id          text,
    kind        integer not null,
    scope       integer,
    name        text,
    key         text,
    occ         integer,
    at          integer,
    spill       integer,
    detail      text,
    data        blob
) strict;

create index unrouted_by_id on unrouted (workflow_id, id);
create index unrouted_until on unrouted (until);
create index unrouted_by_spill on unrouted (spill) where spill is not null;

-- Entries that somebody is to be told of, until he was.
create table owed (
    number   integer primary key autoincrement,
    run      integer not null references heads (number),
    seq      integer not null,
    workflow text not null
) strict;

create index owed_by_run on owed (run);
create index owed_by_workflow on owed (workflow);

-- Search attributes as they are now.
create table attributes (
    run   integer not null references heads (number),
    name  text not null,
    value text not null,
    primary key (run, name)
) strict, without rowid;

create index attributes_by_value on attributes (name, value);

drop view runs;

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
    h.mail,
    (select count(*) from messages w where w.run = h.number and w.taken is null) as waiting,
    (select json_group_object(a.name, a.value) from attributes a where a.run = h.number having count(*) > 0) as attributes,
    iif(h.chain in (0, h.number), null, m.value || '-' || (h.chain >> 37) || '-' || (h.chain & 0x1fffffffff)) as chain,
    iif(h.parent = 0, null, m.value || '-' || (h.parent >> 37) || '-' || (h.parent & 0x1fffffffff)) as parent,
    h.number
from heads h
join meta m on m.key = 'database'
left join statuses s on s.status = h.status
left join patterns p on p.pattern = h.pattern;

-- Messages that came to a run, then those that wait for one. Payloads are shown
-- as in the view journal; that of a message which was taken is there.
create view inbox as
select
    iif(i.run is null, null, m.value || '-' || (i.run >> 37) || '-' || (i.run & 0x1fffffffff)) as run,
    i.workflow_id,
    i.message,
    coalesce(k.name, i.kind) as kind,
    i.name,
    i.key,
    i.id,
    strftime('%Y-%m-%dT%H:%M:%S', i.at / 1000000000, 'unixepoch') || printf('.%09dZ', i.at % 1000000000) as at,
    i.taken,
    strftime('%Y-%m-%dT%H:%M:%S', i.until / 1000000000, 'unixepoch') || printf('.%09dZ', i.until % 1000000000) as until,
    case
        when instr(coalesce(i.data, p.data), x'00') or cast(coalesce(i.data, p.data) as text) glob '*' || char(0xfffd) || '*'
        then 'x''' || hex(coalesce(i.data, p.data)) || ''''
        else cast(coalesce(i.data, p.data) as text)
    end as data,
    i.detail,
    i.run as number
from (
    select r.run, h.workflow_id, r.number as message, r.kind, r.name, r.key, r.id, r.at, r.taken, null as until, r.spill, r.detail, r.data
    from messages r left join heads h on h.number = r.run
    union all
    select null, u.workflow_id, u.number, u.kind, u.name, u.key, u.id, u.at, null, u.until, u.spill, u.detail, u.data
    from unrouted u
) i
join meta m on m.key = 'database'
left join spilled p on p.id = i.spill
left join kinds k on k.kind = i.kind;
