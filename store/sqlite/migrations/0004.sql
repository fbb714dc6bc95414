-- All names begin with perdure_, so that the tables may lie beside an application's own.

drop view runs;
drop view journal;
drop view inbox;

alter table meta rename to perdure_meta;
alter table engines rename to perdure_engines;
alter table kinds rename to perdure_kinds;
alter table statuses rename to perdure_statuses;
alter table patterns rename to perdure_patterns;
alter table heads rename to perdure_heads;
alter table entries rename to perdure_entries;
alter table spilled rename to perdure_spilled;
alter table messages rename to perdure_messages;
alter table unrouted rename to perdure_unrouted;
alter table owed rename to perdure_owed;
alter table attributes rename to perdure_attributes;
alter table gone rename to perdure_gone;

-- What people list: within each, in the order of the numbers.
create index perdure_heads_by_workflow on perdure_heads (workflow);
create index perdure_heads_by_end on perdure_heads (status) where ended is not null;
create index perdure_heads_by_status on perdure_heads (status) where status > 3 and ended is null; -- neither pending, running nor waiting
