-- Lists are in the order of creation, over all engines, and find runs by the failure with which
-- they ended.

-- Of runs that ended before, the text is not known, which is why it is empty.
alter table perdure.heads add column error text; -- the failure with which the run ended; null while it is open, or where it reached its goal
update perdure.heads set error = '' where ended is not null and status in (21, 22, 23, 25, 26);
update perdure.heads set created = 0 where created is null and number > 0;

create index heads_by_age on perdure.heads (created, number);
create index heads_by_workflow on perdure.heads (workflow, created, number);
create index heads_by_failure on perdure.heads (created, number) where error is not null;

create or replace view perdure.runs as
select
    perdure.run_id(h.number) as run,
    h.workflow_id,
    h.workflow,
    coalesce(p.name, h.pattern::text) as pattern,
    coalesce(s.name, h.status::text) as status,
    nullif(h.owner, 0) as owner,
    perdure.moment(h.wake) as wake,
    perdure.moment(h.created) as created,
    perdure.moment(h.ended) as ended,
    h.cause,
    h.crashes,
    h.mail,
    (select count(*) from perdure.messages w where w.holder = coalesce(h.inbox, h.number) and w.taken is null) as waiting,
    (select json_object_agg(a.name, a.value) from perdure.attributes a where a.run = h.number) as attributes,
    case when h.chain not in (0, h.number) then perdure.run_id(h.chain) end as chain,
    case when h.parent <> 0 then perdure.run_id(h.parent) end as parent,
    h.number,
    h.error
from perdure.heads h
left join perdure.statuses s on s.status = h.status
left join perdure.patterns p on p.pattern = h.pattern;
