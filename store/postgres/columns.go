package postgres

import (
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Rows are sent to the server column by column, each column as one array. So a statement with
// four thousand rows has as many arguments as a statement with a single row, and is prepared
// once. A column that is null in all rows is sent as null, not as an array, which costs
// nothing. A column that is rarely null has a value that stands for null, because arrays of
// plain numbers are encoded several times as fast.

// never stands for the zero time in a column of plain numbers.
const never = math.MinInt64

// instant returns a time for a column of plain numbers.
func instant(t time.Time) int64 {
	if n := nanos(t); n.Valid {
		return n.Int64
	}
	return never
}

// numbersOrNull returns a column of numbers, or a nil array if all are null.
func numbersOrNull(column []pgtype.Int8) any {
	for i := range column {
		if column[i].Valid {
			return column
		}
	}
	return []int64(nil)
}

// textsOrNull returns a column of texts, or a nil array if all are null.
func textsOrNull(column []pgtype.Text) any {
	for i := range column {
		if column[i].Valid {
			return column
		}
	}
	return []string(nil)
}

// headRows are new heads.
type headRows struct {
	number, owner, last, chain, parent, keep []int64
	wake, created, ended, expires            []int64
	retain                                   []string
	since                                    []pgtype.Int8
	workflowID, workflow                     []string
	cause, failure                           []pgtype.Text
	pattern, status                          []int16
	crashes                                  []int32
}

func (r *headRows) add(h *journal.Head, since time.Time) {
	r.number, r.workflowID, r.workflow = append(r.number, int64(h.Number)),
		append(r.workflowID, h.WorkflowID), append(r.workflow, h.Workflow)
	r.pattern, r.status, r.owner = append(r.pattern, int16(h.Pattern)),
		append(r.status, int16(h.Status)), append(r.owner, int64(h.Owner))
	r.wake, r.created, r.ended = append(r.wake, instant(h.Wake)),
		append(r.created, instant(h.Created)), append(r.ended, instant(h.Ended))
	r.last, r.cause, r.crashes = append(r.last, h.Last), append(r.cause, text(h.Cause)),
		append(r.crashes, int32(h.Crashes))
	r.chain, r.parent, r.keep = append(r.chain, int64(h.Chain)), append(r.parent, int64(h.Parent)),
		append(r.keep, int64(h.Keep))
	r.retain, r.expires = append(r.retain, string(h.Retain)),
		append(r.expires, instant(h.Expires()))
	r.since, r.failure = append(r.since, nanos(since)), append(r.failure, failure(h))
}

func (r *headRows) args() []any {
	return []any{
		r.number, r.workflowID, r.workflow, r.pattern, r.status, r.owner, r.wake, r.created,
		r.ended,
		r.last, textsOrNull(r.cause), r.crashes, r.chain, r.parent, r.keep, numbersOrNull(r.since),
		r.retain, r.expires, textsOrNull(r.failure),
	}
}

// updateRows are heads that change, and unloads.
type updateRows struct {
	number, owner, last, mail []int64
	wake, ended, keep         []int64
	expires                   []int64
	retain                    []string
	cause, failure            []pgtype.Text
	status, pattern           []int16
	unload                    []bool
}

func (r *updateRows) add(h *journal.Head, unload bool) {
	r.number, r.status, r.owner = append(r.number, int64(h.Number)),
		append(r.status, int16(h.Status)), append(r.owner, int64(h.Owner))
	r.wake, r.ended, r.last = append(r.wake, instant(h.Wake)), append(r.ended, instant(h.Ended)),
		append(r.last, h.Last)
	r.cause, r.unload, r.mail = append(r.cause, text(h.Cause)), append(r.unload, unload),
		append(r.mail, h.Mail)
	r.keep, r.retain, r.expires = append(r.keep, int64(h.Keep)), append(r.retain, string(h.Retain)),
		append(r.expires, instant(h.Expires()))
	r.pattern, r.failure = append(r.pattern, int16(h.Pattern)), append(r.failure, failure(h))
}

func (r *updateRows) args() []any {
	return []any{
		r.number, r.status, r.owner, r.wake, r.ended, r.last, textsOrNull(r.cause), r.unload,
		r.mail, r.keep, r.retain, r.expires, r.pattern, textsOrNull(r.failure),
	}
}

// entryRows are entries, with the rows that follow from them.
type entryRows struct {
	run, seq     []int64
	at, took     []int64
	scope, spill []pgtype.Int8
	occ          []int32
	kind, status []int16
	name         []string
	key, detail  []pgtype.Text
	data         [][]byte
	fresh        []bool // of a new run, which may not have been written because of another run
	// runs that must exist, and the entries that the new entries follow
	old, follows             []int64
	spilled                  spilledRows
	takenRun, takenNumber    []int64
	takenSeq                 []int64
	outboxRun, outboxSeq     []int64
	attributes               map[attribute]pgtype.Text // null removes the attribute
	attributeRun, removedRun []int64
	attributeName, value     []string
	removedName              []string
}

// An attribute identifies a search attribute of a run.
type attribute struct {
	run  int64
	name string
}

// add adds the entries of a change.
func (r *entryRows) add(c *store.Change) error {
	if len(c.Entries) > 0 && !c.Create {
		r.old, r.follows = append(r.old, int64(c.Run)), append(r.follows, c.Follows())
	}
	for i := range c.Entries {
		e := &c.Entries[i]
		detail, err := journal.EncodeDetail(e.Detail)
		if err != nil {
			return refused("the detail of entry %d of run %d: %w", e.Seq, e.Run, err)
		}
		data := e.Data
		if e.Spill != 0 {
			r.spilled.add(e)
			data = nil
		}
		r.run, r.seq, r.kind = append(r.run, int64(e.Run)), append(r.seq, e.Seq),
			append(r.kind, int16(e.Kind))
		r.status = append(r.status, int16(e.Status))
		r.scope, r.name, r.key = append(r.scope, orNull(e.Op.Scope)), append(r.name, e.Op.Name),
			append(r.key, text(e.Op.Key))
		r.occ = append(r.occ, int32(e.Op.Occ))
		r.at, r.took, r.spill = append(r.at, instant(e.At)), append(r.took, int64(e.Took)),
			append(r.spill, orNull(int64(e.Spill)))
		r.detail, r.data, r.fresh = append(r.detail, text(string(detail))), append(r.data, data),
			append(r.fresh, c.Create)
		r.follow(e)
	}
	return nil
}

func occurrence(n int) pgtype.Int4 { return pgtype.Int4{Int32: int32(n), Valid: n != 0} }

// follow adds the rows that follow from an entry.
func (r *entryRows) follow(e *journal.Entry) {
	if e.Kind == journal.AttributeSet {
		r.set(e.Run, e.Op.Name, attributeValue(e.Data))
	}
	d := e.Detail
	if d == nil {
		return
	}
	if d.Mail != 0 {
		r.takenRun, r.takenNumber, r.takenSeq = append(r.takenRun, int64(e.Run)),
			append(r.takenNumber, d.Mail), append(r.takenSeq, e.Seq)
	}
	if d.Tell {
		r.outboxRun, r.outboxSeq = append(r.outboxRun, int64(e.Run)), append(r.outboxSeq, e.Seq)
	}
	if e.Kind == journal.RunStarted {
		for name, value := range d.Attributes {
			r.set(e.Run, name, attributeValue([]byte(value)))
		}
	}
}

// attributeValue returns a value as it is stored. Nil removes the attribute. An empty value
// is a value.
func attributeValue(data []byte) pgtype.Text {
	if data == nil {
		return pgtype.Text{}
	}
	v := text(string(data))
	v.Valid = true
	return v
}

// set sets the final value of an attribute: the last entry counts.
func (r *entryRows) set(run journal.Number, name string, value pgtype.Text) {
	if r.attributes == nil {
		r.attributes = map[attribute]pgtype.Text{}
	}
	r.attributes[attribute{int64(run), name}] = value
}

// queue adds the statements for the entries to a batch.
func (r *entryRows) queue(b *batch, engine journal.EngineID) {
	if len(r.run) == 0 {
		return
	}
	r.spilled.queue(b)
	if len(r.old) > 0 {
		b.add(checkRuns, r.old, r.follows, len(r.old)).
			or(refused("an entry is of a run that is not there, or does not follow the last " +
				"one that is"))
	}
	b.add(insertEntries, r.run, r.seq, r.kind, r.status, numbersOrNull(r.scope), r.name,
		textsOrNull(r.key), r.occ, r.at, r.took, numbersOrNull(r.spill),
		textsOrNull(r.detail), r.data, r.fresh)
	if len(r.takenRun) > 0 {
		b.add(takeMessages, r.takenRun, r.takenNumber, r.takenSeq, len(r.takenRun)).
			or(refused("an entry takes a message that is not there"))
	}
	if len(r.outboxRun) > 0 {
		b.add(insertOutbox, r.outboxRun, r.outboxSeq, int64(engine))
	}
	for a, value := range r.attributes {
		if value.Valid {
			r.attributeRun, r.attributeName, r.value = append(r.attributeRun, a.run),
				append(r.attributeName, a.name), append(r.value, value.String)
		} else {
			r.removedRun, r.removedName = append(r.removedRun, a.run), append(r.removedName, a.name)
		}
	}
	if len(r.attributeRun) > 0 {
		b.add(setAttributes, r.attributeRun, r.attributeName, r.value)
	}
	if len(r.removedRun) > 0 {
		b.add(removeAttributes, r.removedRun, r.removedName)
	}
}

const (
	// checkRuns fails if a run is not there, or the entry that a new entry follows is not
	// there.
	checkRuns = `select 1 / (count(*) = $3)::int from unnest($1::bigint[], $2::bigint[]) as f (run, seq)
where case when f.seq = 0 then (select true from perdure.heads h where h.number = f.run)
    else (select true from perdure.entries e where e.run = f.run and e.seq = f.seq) end`

	insertEntries = `insert into perdure.entries (run, seq, kind, status, scope, name, key, occ, at, took, spill, detail, data)
select run, seq, kind, status, scope, name, key, occ, nullif(at, -9223372036854775808), took, spill, detail, data from unnest(
    $1::bigint[], $2::bigint[], $3::smallint[], $4::smallint[], $5::bigint[], $6::text[], $7::text[], $8::int[],
    $9::bigint[], $10::bigint[], $11::bigint[], $12::text[], $13::bytea[], $14::boolean[])
    as e (run, seq, kind, status, scope, name, key, occ, at, took, spill, detail, data, fresh)
where not e.fresh or (select true from perdure.heads h where h.number = e.run)`

	takeMessages = `with taken as (
    update perdure.messages m set holder = t.run, taken = t.seq, spill = null, detail = null, data = null
    from (select k.*, (select coalesce(h.inbox, h.number) from perdure.heads h where h.number = k.run) as box
        from unnest($1::bigint[], $2::bigint[], $3::bigint[]) as k (run, number, seq) offset 0) t
    where m.holder = any(array[t.box]) and m.number = any(array[t.number]) and m.taken is null returning 1)
select 1 / (count(*) = $4)::int from taken`

	insertOutbox = `insert into perdure.owed (run, seq, workflow, teller)
select h.number, o.seq, h.workflow, $3 from unnest($1::bigint[], $2::bigint[]) with ordinality as o (run, seq, place)
cross join lateral (select number, workflow from perdure.heads where number = o.run offset 0) h order by o.place`

	setAttributes = `insert into perdure.attributes (run, name, value)
select a.run, a.name, a.value from unnest($1::bigint[], $2::text[], $3::text[]) as a (run, name, value)
where (select true from perdure.heads h where h.number = a.run)
on conflict (run, name) do update set value = excluded.value`

	removeAttributes = `delete from perdure.attributes a using unnest($1::bigint[], $2::text[]) as r (run, name)
where a.run = any(array[r.run]) and a.name = any(array[r.name])`
)

// spilledRows are large payloads that come with entries and messages.
type spilledRows struct {
	id   []int64
	data [][]byte
}

func (r *spilledRows) add(e *journal.Entry) {
	if e.Data != nil {
		r.id, r.data = append(r.id, int64(e.Spill)), append(r.data, e.Data)
	}
}

const insertSpilled = `insert into perdure.spilled (id, data) select * from unnest($1::bigint[], $2::bytea[])
on conflict (id) do update set data = excluded.data`

func (r *spilledRows) queue(b *batch) {
	if len(r.id) > 0 {
		b.add(insertSpilled, r.id, r.data)
	}
}
