-- Limits: what holds work back.

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
