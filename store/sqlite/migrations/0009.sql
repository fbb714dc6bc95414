-- An engine that stops says until when it waits, and for what. Each says which workflows it has.
alter table perdure_engines add column drains integer; -- null while it does not stop
alter table perdure_engines add column held_runs integer not null default 0;
alter table perdure_engines add column held_steps integer not null default 0;
alter table perdure_engines add column workflows text; -- a list in JSON; null if it did not say

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
