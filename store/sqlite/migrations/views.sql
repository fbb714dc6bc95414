-- What people read. They are made anew with each version.

drop view if exists perdure_runs;
drop view if exists perdure_journal;
drop view if exists perdure_inbox;

create view perdure_runs as
select
    m.value || '-' || (h.number >> 37) || '-' || (h.number & 0x1fffffffff) as run,
    h.workflow_id,
    h.workflow,
    coalesce(p.name, h.pattern) as pattern,
    coalesce(s.name, h.status) as status,
    nullif(h.owner, 0) as owner,
    strftime('%Y-%m-%dT%H:%M:%S', h.wake / 1000000000, 'unixepoch') || printf('.%09dZ', h.wake % 1000000000) as wake,
    strftime('%Y-%m-%dT%H:%M:%S', h.created / 1000000000, 'unixepoch') || printf('.%09dZ', h.created % 1000000000) as created,
    strftime('%Y-%m-%dT%H:%M:%S', h.ended / 1000000000, 'unixepoch') || printf('.%09dZ', h.ended % 1000000000) as ended,
    h.cause,
    h.crashes,
    h.mail,
    (select count(*) from perdure_messages w where w.holder = coalesce(h.inbox, h.number) and w.taken is null) as waiting,
    (select json_group_object(a.name, a.value) from perdure_attributes a where a.run = h.number having count(*) > 0) as attributes,
    iif(h.chain in (0, h.number), null, m.value || '-' || (h.chain >> 37) || '-' || (h.chain & 0x1fffffffff)) as chain,
    iif(h.parent = 0, null, m.value || '-' || (h.parent >> 37) || '-' || (h.parent & 0x1fffffffff)) as parent,
    h.number,
    h.error
from perdure_heads h
join perdure_meta m on m.key = 'database'
left join perdure_statuses s on s.status = h.status
left join perdure_patterns p on p.pattern = h.pattern;

-- Payloads are shown as text, and in hexadecimal where they have a zero byte or
-- bytes that are no character.
create view perdure_journal as
select
    m.value || '-' || (e.run >> 37) || '-' || (e.run & 0x1fffffffff) as run,
    h.workflow_id,
    e.seq,
    coalesce(k.name, e.kind) as kind,
    coalesce(s.name, e.status) as status,
    e.scope,
    e.name,
    e.key,
    e.occ,
    strftime('%Y-%m-%dT%H:%M:%S', e.at / 1000000000, 'unixepoch') || printf('.%09dZ', e.at % 1000000000) as at,
    e.took / 1e6 as took_ms,
    case
        when instr(coalesce(e.data, p.data), x'00') or cast(coalesce(e.data, p.data) as text) glob '*' || char(0xfffd) || '*'
        then 'x''' || hex(coalesce(e.data, p.data)) || ''''
        else cast(coalesce(e.data, p.data) as text)
    end as data,
    e.detail,
    e.run as number
from perdure_entries e
join perdure_meta m on m.key = 'database'
left join perdure_heads h on h.number = e.run
left join perdure_spilled p on p.id = e.spill
left join perdure_kinds k on k.kind = e.kind
left join perdure_statuses s on s.status = e.status;

-- Messages that came to a run, then those that wait for one. Payloads are shown
-- as in the view perdure_journal; that of a message which was taken is there.
create view perdure_inbox as
select
    iif(i.run is null, null, m.value || '-' || (i.run >> 37) || '-' || (i.run & 0x1fffffffff)) as run,
    i.workflow_id,
    i.message,
    coalesce(k.name, i.kind) as kind,
    i.name,
    i.key,
    i.id,
    strftime('%Y-%m-%dT%H:%M:%S', i.at / 1000000000, 'unixepoch') || printf('.%09dZ', i.at % 1000000000) as at,
    i.taken,
    strftime('%Y-%m-%dT%H:%M:%S', i.until / 1000000000, 'unixepoch') || printf('.%09dZ', i.until % 1000000000) as until,
    case
        when instr(coalesce(i.data, p.data), x'00') or cast(coalesce(i.data, p.data) as text) glob '*' || char(0xfffd) || '*'
        then 'x''' || hex(coalesce(i.data, p.data)) || ''''
        else cast(coalesce(i.data, p.data) as text)
    end as data,
    i.detail,
    i.run as number
from (
    select r.holder as run, h.workflow_id, r.number as message, r.kind, r.name, r.key, r.id, r.at, r.taken, null as until, r.spill, r.detail, r.data
    from perdure_messages r left join perdure_heads h on h.number = r.holder
    where r.taken is not null
    union all
    select h.number, h.workflow_id, r.number, r.kind, r.name, r.key, r.id, r.at, null, null, r.spill, r.detail, r.data
    from perdure_heads h cross join perdure_messages r on r.holder = coalesce(h.inbox, h.number)
    where r.taken is null
    union all
    select null, u.workflow_id, u.number, u.kind, u.name, u.key, u.id, u.at, null, u.until, u.spill, u.detail, u.data
    from perdure_unrouted u
) i
join perdure_meta m on m.key = 'database'
left join perdure_spilled p on p.id = i.spill
left join perdure_kinds k on k.kind = i.kind;
