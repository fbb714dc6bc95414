-- An engine that stops says until when it waits, and for what. Each says which workflows it has,
-- and when its loops had their latest turns.
alter table perdure_engines add column drains integer; -- null while it does not stop
alter table perdure_engines add column held_runs integer not null default 0;
alter table perdure_engines add column held_steps integer not null default 0;
alter table perdure_engines add column workflows text; -- a list in JSON; null if it did not say
alter table perdure_engines add column seen integer;   -- when it said all that last
alter table perdure_engines add column loops text;     -- a list in JSON; null if it did not say

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

-- An order of an operator reaches a run of a workflow that is paused, or that no engine has.
alter table perdure_heads add column ordered integer not null default 0; -- the order that no owner has seen: 0 none, 1 any, 2 to terminate

create index perdure_heads_ordered on perdure_heads (workflow, wake) where ordered > 0;
create index perdure_heads_doomed on perdure_heads (wake) where ordered = 2;
