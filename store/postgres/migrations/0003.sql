-- The messages that a run has not taken stay where they are when it continues as new.

-- A message belongs to the run that has taken it, and until then to the first run of those
-- that continue each other: whose inbox it is.
alter table perdure.messages rename column run to holder;

alter table perdure.heads add column inbox bigint;                   -- the run that holds what it has not taken: null is itself, -1 none, as it was continued
alter table perdure.heads add column past  bigint not null default 0; -- the messages up to this number were taken before it began

alter table perdure.gone add column inbox bigint; -- that of the head

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
    h.number
from perdure.heads h
left join perdure.statuses s on s.status = h.status
left join perdure.patterns p on p.pattern = h.pattern;

-- Messages that came to a run, then those that wait for one. That of a message which
-- was taken is in the view journal.
create or replace view perdure.inbox as
select
    perdure.run_id(i.run) as run,
    i.workflow_id,
    i.message,
    coalesce(k.name, i.kind::text) as kind,
    i.name,
    i.key,
    i.id,
    perdure.moment(i.at) as at,
    i.taken,
    perdure.moment(i.until) as until,
    perdure.legible(coalesce(i.data, p.data)) as data,
    i.detail,
    i.run as number
from (
    select m.holder as run, h.workflow_id, m.number as message, m.kind, m.name, m.key, m.id, m.at, m.taken, null::bigint as until, m.spill, m.detail, m.data
    from perdure.messages m left join perdure.heads h on h.number = m.holder
    where m.taken is not null
    union all
    select h.number, h.workflow_id, m.number, m.kind, m.name, m.key, m.id, m.at, null, null, m.spill, m.detail, m.data
    from perdure.heads h join perdure.messages m on m.holder = coalesce(h.inbox, h.number)
    where m.taken is null
    union all
    select null, u.workflow_id, u.number, u.kind, u.name, u.key, u.id, u.at, null, u.until, u.spill, u.detail, u.data
    from perdure.unrouted u
) i
left join perdure.spilled p on p.id = i.spill
left join perdure.kinds k on k.kind = i.kind;
