package postgres

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// One statement delivers all messages, of any kind and number. It has a source, which returns
// them in order, and a body, which
//
//   - finds the run that each message is for (to), as it is after lockHeads;
//   - judges the message by that run and by the earlier messages, of the same group too;
//   - numbers the delivered messages, run by run;
//   - fails if a message is to be kept and its workflow ID is not reserved: a run that
//     has ended since had the ID. It also fails if a receiver that was not locked has got
//     messages since it was read, or has ended: the number of the message would already
//     be in use;
//   - writes the messages, the unrouted messages, and each head once;
//   - returns the verdicts.
//
// Verdicts are the numbers of the verdicts in package store.

// postBody follows a common table "m" of messages: place, run, follow, workflow_id, until,
// force, unrouted (its number among the unrouted messages, else 0), kind, id, scope, name,
// key, occ, at, spill, detail, data. $1 is the engine and $2 the present time.
var postBody = fmt.Sprintf(`,
found as materialized (
    select m.*, r.number as target, coalesce(nullif(r.chain, 0), r.number) as line, r.ended as over, r.owner, r.cause, r.wake, r.mail, r.given, coalesce(r.inbox, r.number) as box
    from m
    cross join lateral (select case
        when m.run = 0 then coalesce(
            (select o.number from perdure.heads o where o.workflow_id = m.workflow_id and o.ended is null and o.number > 0),
            (select o.number from perdure.heads o where o.workflow_id = m.workflow_id and o.ended is not null order by o.ended desc, o.number desc limit 1))
        when m.follow <> 0 then %[1]s
        else m.run
    end as number) t
    left join lateral (select * from perdure.heads h where h.number = t.number offset 0) r on true
),
known as materialized (
    select f.*,
        (select k.number from perdure.messages k where k.chain = f.line and k.id = f.id) as known,
        case when f.run = 0 and (f.target is null or f.over is not null) then
            (select u.number from perdure.unrouted u where u.workflow_id = f.workflow_id and u.id = f.id and u.until > $2 order by u.number limit 1)
        end as waits
    from found f
),
first as materialized (
    select k.*, case
        when known is not null or waits is not null then %[2]d
        when target is not null and over is null then %[3]d
        when run <> 0 and target is not null then %[4]d
        when run <> 0 or until is null then %[5]d
        else %[6]d
    end as alone
    from known k
),
second as materialized (
    select *, case
        when unrouted <> 0
            and count(*) filter (where alone in (%[2]d, %[3]d)) over (partition by unrouted order by place rows between unbounded preceding and 1 preceding) > 0
        then %[5]d
        when id is not null and alone in (%[3]d, %[4]d)
            and count(*) filter (where alone = %[3]d) over (partition by line, id order by place rows between unbounded preceding and 1 preceding) > 0
        then %[2]d
        when kept > 0 then %[2]d
        else alone
    end as verdict, alone = %[6]d or waits is not null or kept > 0 as away
    from (
        select *, case when id is not null and run = 0 and alone in (%[5]d, %[6]d)
            then count(*) filter (where alone = %[6]d) over (partition by workflow_id, id order by place rows between unbounded preceding and 1 preceding) else 0 end as kept
        from first) first
),
judged as materialized (
    select *,
        mail + count(*) filter (where verdict = %[3]d) over t as number,
        bool_or(verdict = %[3]d and owner = 0 and (cause = '' or force)) over t and (wake is null or wake > $2) as woken,
        bool_or(verdict = %[3]d and unrouted <> 0) over t as moved
    from second
    window t as (partition by target order by place)
),
numbered as materialized (
    select *, case when verdict = %[6]d then nextval('perdure.unrouted_number_seq') /
        (select count(*) from perdure.heads o where o.workflow_id = j.workflow_id and o.ended is null and o.number < 0) end as stored
    from (select * from judged order by place) j
),
delivering as (
    insert into perdure.messages (holder, number, chain, id, kind, scope, name, key, occ, at, spill, detail, data)
    select box, number, line, id, kind, scope, name, key, occ, at, spill, detail, data from numbered where verdict = %[3]d
),
keeping as (
    insert into perdure.unrouted (number, workflow_id, until, id, kind, scope, name, key, occ, at, spill, detail, data) overriding system value
    select stored, workflow_id, until, id, kind, scope, name, key, occ, at, spill, detail, data from numbered where verdict = %[6]d
),
moving as (
    delete from perdure.unrouted where number = any (array(select unrouted from numbered where unrouted <> 0 and verdict in (%[2]d, %[3]d)))
),
counting as (
    update perdure.heads h set mail = c.mail / (h.mail = c.was and h.ended is null)::int,
        given = case when h.owner = $1 and $1 <> 0 and h.given = h.mail then h.given + c.given else h.given end,
        wake = case when c.woken then $2 else h.wake end, ordered = greatest(h.ordered, c.ordered)
    from (select target, min(mail) as was, max(number) as mail, bool_or(woken) as woken, max(%[7]s) as ordered, count(*) filter (where not moved) as given from numbered where verdict = %[3]d group by target) c
    where h.number = any(array[c.target])
)
select j.place, j.verdict, coalesce(j.known, j.waits, j.stored, j.number),
    r.number, r.workflow_id, r.workflow, r.pattern, r.status, r.owner, case when j.woken then $2 else r.wake end, r.created, r.ended, r.last, r.cause, r.crashes,
    j.number, r.chain, r.parent, r.keep, r.retain, r.error
from numbered j
left join lateral (select * from perdure.heads h where h.number = j.target and j.verdict in (%[2]d, %[3]d, %[4]d) and not j.away offset 0) r on true
order by j.place`, followed("m"), store.Duplicate, store.Delivered, store.Closed, store.Nobody,
	store.Unrouted, orderOf())

// followed returns the number of the receiver of a message that follows the chain of its run: the
// open run of the chain if that run has ended, else that run. It has a table of the messages with
// the columns run and follow.
func followed(m string) string {
	return fmt.Sprintf(`coalesce(
            (select o.number from (select * from perdure.heads c where c.number = %[1]s.run offset 0) c
            cross join lateral (select * from perdure.heads o where o.workflow_id = c.workflow_id and o.ended is null offset 0) o
            where coalesce(nullif(o.chain, 0), o.number) = coalesce(nullif(c.chain, 0), c.number)
            and c.ended is not null and (%[1]s.follow = %[2]d or c.status <> %[3]d)), %[1]s.run)`,
		m, store.FollowChain, journal.ContinuedAsNew)
}

// orderOf returns what [store.OrderOf] does, in SQL. Within a string of the detail, which is JSON,
// there is no quotation mark without a backslash.
func orderOf() string {
	var all []string
	for k := range journal.Kind(math.MaxUint8) {
		if k.IsOrder() {
			all = append(all, strconv.Itoa(int(k)))
		}
	}
	return fmt.Sprintf(`case when kind not in (%s) then %d when kind = %d and position('"mode":"%s"' in detail) > 0 then %d else %d end`,
		strings.Join(all, ", "), store.NoOrder, journal.CancelAsked, journal.ActionTerminate,
		store.TerminateOrder, store.AnyOrder)
}

// sendPosts delivers the messages of a group, and moves messages that had found no run. A
// message may depend on whether a new run (creator) is created. If it is created, its Posts
// are sent. If it is not created and an open run of another workflow has its ID, only its
// Else is sent. If its ID refers to a run of the same workflow, both are sent. Runs that the
// group starts later do not count.
var sendPosts = `with u as materialized (
    select * from perdure.unrouted where number = any($23::bigint[]) order by number for update
),
m as materialized (
    select p.place, p.run, p.follow, p.workflow_id, p.until, p.force, p.unrouted, coalesce(u.kind, p.kind) as kind,
        coalesce(u.id, p.id) as id, coalesce(u.scope, p.scope) as scope, coalesce(u.name, p.name) as name, coalesce(u.key, p.key) as key,
        coalesce(u.occ, p.occ) as occ, coalesce(u.at, p.at) as at, coalesce(u.spill, p.spill) as spill, coalesce(u.detail, p.detail) as detail,
        coalesce(u.data, p.data) as data
    from unnest(
        $3::bigint[], $4::smallint[], $5::text[], $6::bigint[], $7::boolean[], $8::bigint[], $9::text[], $10::text[], $11::boolean[],
        $12::smallint[], $13::text[], $14::bigint[], $15::text[], $16::text[], $17::int[], $18::bigint[], $19::bigint[], $20::text[], $21::bytea[],
        $22::bigint[])
        with ordinality as p (run, follow, workflow_id, until, force, creator, creator_id, creator_workflow, other,
            kind, id, scope, name, key, occ, at, spill, detail, data, unrouted, place)
    left join u on u.number = p.unrouted
    where (p.unrouted = 0 or u.number is not null) and (p.creator = 0 or case
        when (select true from perdure.heads c where c.number = p.creator) then not p.other
        when (select c.workflow from perdure.heads c where c.workflow_id = p.creator_id and c.ended is null and c.number > 0
            and coalesce(array_position($24::bigint[], c.number), 0) < array_position($24::bigint[], p.creator)) <> p.creator_workflow then p.other
        else true
    end)
)` + postBody

// deliverPosts moves the messages that wait for the workflow IDs of created runs. If there
// are no unrouted messages at all, it searches no further.
var deliverPosts = `with m as materialized (
    select u.number as place, n.number as run, 0::smallint as follow, null::text as workflow_id, null::bigint as until, false as force,
        u.number as unrouted, u.kind, u.id, u.scope, u.name, u.key, u.occ, u.at, u.spill, u.detail, u.data
    from unnest($3::bigint[], $4::text[]) as n (number, workflow_id)
    join perdure.unrouted u on u.number = any (array(select w.number from perdure.unrouted w where w.workflow_id = n.workflow_id and w.until > $2))
    where (select true from perdure.unrouted limit 1) and (select true from perdure.heads h where h.number = n.number)
    for update of u
)` + postBody

// postRows are the messages that a group sends.
type postRows struct {
	of                         []*store.Post
	run, creator               []int64
	follow                     []int16
	force, other               []bool
	workflowID                 []pgtype.Text
	creatorID, creatorWorkflow []string
	until, scope, at, spill    []pgtype.Int8
	kind                       []int16
	occ                        []pgtype.Int4
	id, name, key, detail      []pgtype.Text
	data                       [][]byte
	spilled                    spilledRows
	// numbers of the unrouted messages to move, with zeros and without
	unrouted, moves []int64
	toRun, follows  []int64  // for locks
	byID            []string // workflow IDs for locks
}

func (r *postRows) empty() bool { return len(r.of) == 0 }

// post adds the messages that a change sends.
func (t *transaction) post(c *store.Change) error {
	for i, posts := range [][]store.Post{c.Posts, c.Else} {
		for j := range posts {
			p := &posts[j]
			if t.there.posts[p] {
				continue
			}
			p.Verdict, p.To, p.Number = store.Written, journal.Head{}, 0
			other, creator := i == 1, c
			switch {
			case other && !c.Create, !other && t.there.changes[c] && c.Verdict == store.Taken:
				continue
			case !c.Create, c.From != 0, t.there.changes[c]: // the result of the change is known
				creator = nil
			}
			if err := t.posts.add(p, creator, other); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *postRows) add(p *store.Post, creator *store.Change, other bool) error {
	m := &p.Message
	if p.Unrouted != 0 { // the stored message stays unchanged
		p.Verdict = store.Nobody // unless the message is there
		m = new(journal.Entry)
		r.moves = append(r.moves, p.Unrouted)
	}
	id, detail, err := messageDetail(m)
	if err != nil {
		return err
	}
	data := m.Data
	if m.Spill != 0 {
		r.spilled.add(m)
		data = nil
	}
	r.of, r.unrouted = append(r.of, p), append(r.unrouted, p.Unrouted)
	r.run, r.follow, r.force = append(r.run, int64(p.Run)), append(r.follow, int16(p.Follow)),
		append(r.force, p.Force)
	r.workflowID, r.until = append(r.workflowID, pgtype.Text{
		String: p.WorkflowID, Valid: p.WorkflowID != "",
	}), append(r.until, nanos(p.Until))
	var number int64
	var creatorID, creatorWorkflow string
	if creator != nil {
		number, creatorID, creatorWorkflow = int64(creator.Run), creator.Head.WorkflowID,
			creator.Head.Workflow
	}
	r.creator, r.creatorID = append(r.creator, number), append(r.creatorID, creatorID)
	r.creatorWorkflow, r.other = append(r.creatorWorkflow, creatorWorkflow), append(r.other, other)
	r.kind, r.id, r.scope = append(r.kind, int16(m.Kind)), append(r.id, text(id)),
		append(r.scope, orNull(m.Op.Scope))
	r.name, r.key, r.occ = append(r.name, text(m.Op.Name)), append(r.key, text(m.Op.Key)),
		append(r.occ, occurrence(m.Op.Occ))
	r.at, r.spill = append(r.at, nanos(m.At)), append(r.spill, orNull(int64(m.Spill)))
	r.detail, r.data = append(r.detail, text(string(detail))), append(r.data, data)
	switch {
	case p.Run == 0:
		r.byID = append(r.byID, p.WorkflowID)
	case p.Follow != store.FollowNone:
		r.toRun, r.follows = append(r.toRun, int64(p.Run)), append(r.follows, int64(p.Run))
	default:
		r.toRun = append(r.toRun, int64(p.Run))
	}
	return nil
}

// messageDetail returns the sender's ID of a message, and the rest of its detail as it is
// stored.
func messageDetail(e *journal.Entry) (id string, rest []byte, err error) {
	detail := e.Detail
	if detail != nil && detail.Message != "" {
		other := *detail
		id, other.Message = other.Message, ""
		if detail = &other; reflect.ValueOf(other).IsZero() {
			detail = nil
		}
	}
	if rest, err = journal.EncodeDetail(detail); err != nil {
		err = refused("the detail of a message: %w", err)
	}
	return id, rest, err
}

// queue adds the statements for the messages to the batch.
func (r *postRows) queue(t *transaction) {
	if r.empty() {
		return
	}
	r.spilled.queue(&t.batch)
	if len(r.byID) > 0 {
		t.batch.add(reserveIDs, r.byID)
	}
	t.batch.add(sendPosts, int64(t.group.Engine), nanos(t.group.Now),
		r.run, r.follow, r.workflowID, r.until, r.force, r.creator, r.creatorID, r.creatorWorkflow,
		r.other,
		r.kind, r.id, r.scope, r.name, r.key, r.occ, r.at, r.spill, r.detail, r.data, r.unrouted,
		r.moves, t.starts.number).or(errLostRace).each(t.verdicts(r.of))
	if len(r.byID) > 0 {
		t.batch.add(freeIDs, r.byID)
	}
}

// deliver delivers to new runs the messages that have waited for their workflow IDs. It then
// sets the found head of each run to its state after that.
func (t *transaction) deliver(created map[journal.Number]*store.Change, numbers []int64) {
	ids := make([]string, len(numbers))
	for i, n := range numbers {
		ids[i] = created[journal.Number(n)].Head.WorkflowID
	}
	t.batch.add(deliverPosts, int64(t.group.Engine), nanos(t.group.Now), numbers, ids).
		each(func(rows pgx.Rows) error {
			_, _, _, h, err := t.verdict(rows)
			if c := created[h.Number]; err == nil && c != nil {
				c.Found = h
			}
			return err
		})
}

// verdicts returns a function that reads the verdicts on messages.
func (t *transaction) verdicts(posts []*store.Post) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		place, verdict, number, h, err := t.verdict(rows)
		if err != nil {
			return err
		}
		p := posts[place-1]
		p.Verdict, p.To, p.Number = verdict, h, 0
		if verdict != store.Closed && verdict != store.Nobody {
			p.Number = number
		}
		return nil
	}
}

// verdict reads the verdict on one message.
func (t *transaction) verdict(rows pgx.Rows) (place int64, v store.Verdict, number int64,
	to journal.Head, err error) {
	var verdict int32
	var n pgtype.Int8
	to, err = t.store.scanHead(rows, &place, &verdict, &n)
	return place, store.Verdict(verdict), n.Int64, to, err
}
