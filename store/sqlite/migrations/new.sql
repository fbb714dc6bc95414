-- What the store keeps, in tables that may lie beside an application's own: all names
-- begin with perdure_. Times are nanoseconds since 1970, null for none. Numbers of
-- kinds, statuses and patterns have their names in tables of their own; views show
-- everything in words.

create table perdure_meta (
    key   text primary key,
    value any not null
) strict, without rowid;

-- One row for each engine that has joined and not left.
create table perdure_engines (
    id    integer primary key autoincrement,
    host  text not null,
    pid   integer not null,
    build text not null,
    since integer,
    slots integer not null default 0, -- how many runs it has at a time
    drains     integer,                    -- until when it waits, while it stops; null while it does not
    held_runs  integer not null default 0, -- what it has in memory then
    held_steps integer not null default 0, -- what it waits for
    workflows  text,                       -- those that it has, in JSON; null if it did not say
    seen       integer,                    -- when it said all that last
    loops      text                        -- and when they had their latest turns, likewise
) strict;

create table perdure_kinds    (kind    integer primary key, name text not null) strict;
create table perdure_statuses (status  integer primary key, name text not null) strict;
create table perdure_patterns (pattern integer primary key, name text not null) strict;

-- One row for each run: what lists and claims read.
create table perdure_heads (
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
    seen        integer not null,    -- the last entry when the last crash was counted
    mail        integer not null default 0, -- the messages that were ever posted to it
    given       integer not null default 0, -- how many of them its owner was given
    chain       integer not null default 0, -- the first run of the chain; 0 is the run itself
    parent      integer not null default 0, -- the run that started it as a child; 0 for none
    keep        integer not null default 0, -- nanoseconds for which it stands for its workflow ID
    claimed     integer not null default 0, -- 1 where it was claimed and the row was not written since
    retain      text not null default '',   -- how long it is kept after its end, in words, by status; '' where nobody has said it
    expires     integer,                    -- when it may be removed; null while it is open or for ever
    inbox       integer,                    -- the run that holds what it has not taken: null is itself, -1 none, as it was continued
    past        integer not null default 0, -- the messages up to this number were taken before it began
    error       text,                       -- the failure with which the run ended; null while it is open, or where it reached its goal
    ordered     integer not null default 0  -- the order that no owner has seen: 0 none, 1 any, 2 to terminate
) strict;

-- Who has a workflow ID: the open run, of which there is one at most, else those
-- that ended last.
create unique index perdure_heads_open on perdure_heads (workflow_id) where ended is null;
create index perdure_heads_ended on perdure_heads (workflow_id, ended) where ended is not null;

-- What is due, and what an engine owns.
create index perdure_heads_owned on perdure_heads (owner, workflow, wake) where ended is null;

-- What people list: within each but the last, in the order of creation.
create index perdure_heads_by_age on perdure_heads (created);
create index perdure_heads_by_workflow on perdure_heads (workflow, created);
create index perdure_heads_by_failure on perdure_heads (created, number, status, error) where error is not null;
create index perdure_heads_by_status on perdure_heads (status) where status > 3 and ended is null; -- neither pending, running nor waiting

-- Whose owner is to be given messages: hardly ever any.
create index perdure_heads_unseen on perdure_heads (owner) where mail > given and owner > 0 and ended is null;

-- What is taken of a workflow that is paused, or that no engine has: hardly ever any.
create index perdure_heads_ordered on perdure_heads (workflow, wake) where ordered > 0;
create index perdure_heads_doomed on perdure_heads (wake) where ordered = 2;
create index perdure_heads_by_parent on perdure_heads (parent) where parent > 0;

-- What retention looks at: what may go, and what ended before there was a retention.
create index perdure_heads_expiring on perdure_heads (expires) where expires is not null;
create index perdure_heads_unsaid on perdure_heads (workflow) where retain = '' and ended is not null;

-- One row for each fact. Columns that a plain result does not need are null,
-- which takes one byte each. The payload is last: to read what precedes it
-- costs the same however long it is.
create table perdure_entries (
    run    integer not null references perdure_heads (number),
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
create index perdure_entries_by_spill on perdure_entries (spill) where spill is not null;

create table perdure_spilled (
    id   integer primary key,
    data blob not null
) strict;

-- One row for each message that has come to a run. One that was taken has no
-- payload any more, which is in the entry that took it.
create table perdure_messages (
    holder integer not null, -- the run that has taken it; until then the first of those that continue each other
    number integer not null, -- the first message of those runs is 1
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
    primary key (holder, number)
) strict, without rowid;

create unique index perdure_messages_by_id on perdure_messages (chain, id) where id is not null;
create index perdure_messages_by_spill on perdure_messages (spill) where spill is not null;

-- Messages for a workflow ID that no open run had.
create table perdure_unrouted (
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

create index perdure_unrouted_by_id on perdure_unrouted (workflow_id, id);
create index perdure_unrouted_until on perdure_unrouted (until);
create index perdure_unrouted_by_spill on perdure_unrouted (spill) where spill is not null;

-- Entries that somebody is to be told of, until he was.
create table perdure_owed (
    number   integer primary key autoincrement,
    run      integer not null references perdure_heads (number),
    seq      integer not null,
    workflow text not null
) strict;

create index perdure_owed_by_run on perdure_owed (run);
create index perdure_owed_by_workflow on perdure_owed (workflow);

-- Search attributes as they are now.
create table perdure_attributes (
    run   integer not null references perdure_heads (number),
    name  text not null,
    value text not null,
    primary key (run, name)
) strict, without rowid;

create index perdure_attributes_by_value on perdure_attributes (name, value);

-- Runs whose heads are gone, and not yet all that those have left.
create table perdure_gone (
    run   integer primary key,
    inbox integer -- that of the head
) strict;

-- The slots of one key of a limit, or its bucket of tokens.
create table perdure_limits (
    id    integer primary key,
    name  text not null,
    key   text not null,
    most  integer not null, -- slots; 0 for as many as are asked for
    held  integer not null,
    asks  integer not null, -- so far
    every integer,          -- nanoseconds in which the bucket gains a token
    burst integer,
    full  integer,          -- when the bucket is full again
    clock integer,          -- the latest time of an ask for a token
    revision integer not null default 0 -- of the setting that its numbers come from
) strict;

create unique index perdure_limits_by_name on perdure_limits (name, key);
create index perdure_limits_full on perdure_limits (full) where full is not null;

-- A slot that a run holds or waits for, or a token.
create table perdure_slots (
    run      integer not null,
    number   integer not null, -- by which the run knows it
    lim      integer not null references perdure_limits (id),
    ask      integer not null, -- counts the asks of the limit
    since    integer,
    held     integer not null, -- 1 if the run has it
    due      integer,          -- the time of a token
    priority integer not null,
    share    text not null,
    turn     integer not null, -- the round in which its share gets a slot
    came     integer not null default 0, -- the time by which those of a share are in order
    primary key (run, number)
) strict, without rowid;

create index perdure_slots_tokens on perdure_slots (lim, due) where due is not null;
create index perdure_slots_line on perdure_slots (lim, priority desc, turn, ask) where held = 0;
create index perdure_slots_share on perdure_slots (lim, priority, share, came, turn) where held = 0;

-- Settings: rules that operators set for all engines. A setting that is not set any more has no
-- value.
create table perdure_settings (
    kind     text not null,
    name     text not null,
    value    blob,
    by       text not null,
    reason   text not null,
    at       integer,
    revision integer not null,
    primary key (kind, name)
) strict, without rowid;

create unique index perdure_settings_by_revision on perdure_settings (revision);
