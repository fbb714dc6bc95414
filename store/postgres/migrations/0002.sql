-- For how long a run is kept is kept with the run, and a large one is removed in slices.

alter table perdure.heads add column retain  text not null default ''; -- in words, by status; '' where nobody has said it
alter table perdure.heads add column expires bigint;                   -- when it may be removed; null while it is open or for ever

-- What retention looks at: what may go, and what ended before there was a retention.
drop index perdure.heads_over;
create index heads_expiring on perdure.heads (expires) where expires is not null;
create index heads_unsaid on perdure.heads (workflow) where retain = '' and ended is not null;

-- Runs whose heads are gone, and not yet all that those have left.
create table perdure.gone (run bigint primary key);
