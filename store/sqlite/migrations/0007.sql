-- Lists are in the order of creation, over all engines, and find runs by the failure with which
-- they ended.

-- Of runs that ended before, the text is not known, which is why it is empty.
alter table perdure_heads add column error text; -- the failure with which the run ended; null while it is open, or where it reached its goal
update perdure_heads set error = '' where ended is not null and status in (21, 22, 23, 25, 26);
update perdure_heads set created = 0 where created is null;

drop index perdure_heads_by_workflow;
drop index perdure_heads_by_end;
create index perdure_heads_by_age on perdure_heads (created);
create index perdure_heads_by_workflow on perdure_heads (workflow, created);
create index perdure_heads_by_failure on perdure_heads (created, number, status, error) where error is not null;
