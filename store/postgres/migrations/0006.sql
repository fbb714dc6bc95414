-- An engine that stops says until when it waits, and for what. Each says which workflows it has,
-- and when its loops had their latest turns.
alter table perdure.engines
    add column drains     bigint, -- null while it does not stop
    add column held_runs  integer not null default 0,
    add column held_steps integer not null default 0,
    add column workflows  text[], -- null if it did not say
    add column loops      jsonb;  -- null if it did not say

-- Settings: rules that operators set for all engines. A setting that is not set any more has no
-- value.
create table perdure.settings (
    kind     text collate "C" not null,
    name     text collate "C" not null,
    value    bytea,
    by       text not null,
    reason   text not null,
    at       bigint,
    revision bigint not null,
    primary key (kind, name)
);

create unique index settings_by_revision on perdure.settings (revision);

-- An order of an operator reaches a run of a workflow that is paused, or that no engine has.
alter table perdure.heads add column ordered smallint not null default 0; -- the order that no owner has seen: 0 none, 1 any, 2 to terminate

create index heads_ordered on perdure.heads (workflow, wake, number) where ordered > 0;
create index heads_doomed on perdure.heads (wake, number) where ordered = 2;
