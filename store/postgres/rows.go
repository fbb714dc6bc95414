package postgres

import (
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/perdure/perdure/journal"
)

// headColumns are the columns of a head, in the order in which they are read.
const headColumns = "number, workflow_id, workflow, pattern, status, owner, wake, created, " +
	"ended, last, cause, crashes, mail, chain, parent, keep, retain, error"

// of returns columns qualified by a table name or alias.
func of(table, columns string) string {
	return table + "." + strings.ReplaceAll(columns, ", ", ", "+table+".")
}

// A headRow reads a head. All its fields are null if a join has found no head.
type headRow struct {
	number, owner, wake, created, ended, last, mail, chain, parent, keep pgtype.Int8
	workflowID, workflow, cause, retain, failure                         pgtype.Text
	pattern, status                                                      pgtype.Int2
	crashes                                                              pgtype.Int4
}

// into returns the targets for scanning a row of headColumns.
func (r *headRow) into() []any {
	return []any{
		&r.number, &r.workflowID, &r.workflow, &r.pattern, &r.status, &r.owner, &r.wake, &r.created,
		&r.ended,
		&r.last, &r.cause, &r.crashes, &r.mail, &r.chain, &r.parent, &r.keep, &r.retain,
		&r.failure,
	}
}

// head returns the head that was read, or the zero head if there was none. An invalid pattern
// or status becomes a number that names none.
func (s *Store) head(r *headRow) journal.Head {
	if !r.number.Valid {
		return journal.Head{}
	}
	n := journal.Number(r.number.Int64)
	return journal.Head{
		Number: n, ID: journal.MakeRunID(s.database, n), WorkflowID: r.workflowID.String,
		Workflow: r.workflow.String,
		Pattern:  journal.Pattern(small(r.pattern)), Status: journal.Status(small(r.status)),
		Owner: journal.EngineID(r.owner.Int64), Wake: moment(r.wake), Created: moment(r.created),
		Ended: moment(r.ended),
		Last:  r.last.Int64, Cause: legal(r.cause), Crashes: int(r.crashes.Int32),
		Mail:  r.mail.Int64,
		Chain: journal.Number(r.chain.Int64), Parent: journal.Number(r.parent.Int64),
		Keep:   time.Duration(r.keep.Int64),
		Retain: journal.Retention(r.retain.String),
		Error:  legal(r.failure),
	}
}

// scanHead reads a row that begins with other columns and ends with the columns of a head.
func (s *Store) scanHead(rows pgx.Rows, first ...any) (journal.Head, error) {
	var r headRow
	if err := rows.Scan(append(first, r.into()...)...); err != nil {
		return journal.Head{}, err
	}
	return s.head(&r), nil
}

// These are the columns of an entry, and the columns of a message in the same order, followed
// by its sender's ID.
const (
	entryColumns   = "seq, kind, status, scope, name, key, occ, at, took, spill, detail, data"
	messageColumns = "number, kind, null::smallint, scope, name, key, occ, at, null::bigint, " +
		"spill, detail, data, id"
)

// An entryRow reads an entry or a message.
type entryRow struct {
	seq                          int64
	kind, status                 pgtype.Int2
	scope, at, took, spill       pgtype.Int8
	occ                          pgtype.Int4
	name, key, detail, id, extra pgtype.Text
	data, payload                []byte
	until                        pgtype.Int8
}

// into returns the targets for scanning a row of entryColumns.
func (r *entryRow) into() []any {
	return []any{
		&r.seq, &r.kind, &r.status, &r.scope, &r.name, &r.key, &r.occ, &r.at, &r.took, &r.spill,
		&r.detail, &r.data,
	}
}

// entry returns the entry of a run that was read, or a CorruptError.
func (r *entryRow) entry(run journal.Number) (journal.Entry, error) {
	e := journal.Entry{
		Run: run, Seq: r.seq, Kind: journal.Kind(small(r.kind)),
		Status: journal.Status(small(r.status)),
		Op: journal.Op{
			Scope: r.scope.Int64, Name: r.name.String, Key: legal(r.key), Occ: int(r.occ.Int32),
		},
		At: moment(r.at), Took: time.Duration(r.took.Int64), Spill: journal.Number(r.spill.Int64),
		Data: r.data,
	}
	detail, err := journal.DecodeDetail([]byte(r.detail.String))
	if err != nil {
		return e, &journal.CorruptError{
			Run: e.Run, Seq: e.Seq, Reason: fmt.Sprintf("its detail: %v", err),
		}
	}
	e.Detail = detail
	return e, e.Check()
}

// message returns the message to a run that was read, or a CorruptError.
func (r *entryRow) message(run journal.Number) (journal.Entry, error) {
	e, err := r.entry(run)
	if err != nil {
		return e, err
	}
	if r.id.String != "" {
		if e.Detail == nil {
			e.Detail = new(journal.Detail)
		}
		e.Detail.Message = legal(r.id)
	}
	return e, e.Check()
}

// small reads the number of a kind, status or pattern. A number that is too large becomes
// 255, which names none.
func small(v pgtype.Int2) uint8 {
	if v.Int16 < 0 || v.Int16 > math.MaxUint8 {
		return math.MaxUint8
	}
	return uint8(v.Int16)
}

// moment reads a time. Null becomes the zero time.
func moment(v pgtype.Int8) time.Time {
	if !v.Valid {
		return time.Time{}
	}
	return time.Unix(0, v.Int64).UTC()
}

// nanos returns a time as it is stored: the nearest time that fits into 64 bits of
// nanoseconds. The zero time becomes null.
func nanos(t time.Time) pgtype.Int8 {
	n := pgtype.Int8{Valid: !t.IsZero()}
	switch {
	case t.IsZero():
	case t.Before(earliest):
		n.Int64 = math.MinInt64 + 1
	case t.After(latest):
		n.Int64 = math.MaxInt64
	default:
		n.Int64 = t.UnixNano()
	}
	return n
}

// These are the earliest and the latest time that can be stored: in the years 1677 and 2262.
var earliest, latest = time.Unix(0, math.MinInt64+1), time.Unix(0, math.MaxInt64)

// stored returns a time as it is after it was stored and read back.
func stored(t time.Time) time.Time { return moment(nanos(t)) }

// orNull returns a number, or null for zero.
func orNull[V ~int64](v V) pgtype.Int8 { return pgtype.Int8{Int64: int64(v), Valid: v != 0} }

// hexed is the prefix of a text that holds, in hexadecimal, bytes that PostgreSQL does not
// accept in a text.
const hexed = `\x`

// text returns a string as it is stored. PostgreSQL refuses a text with a zero byte or with
// invalid UTF-8: such a string becomes hexadecimal after hexed. An empty string becomes null.
func text(s string) pgtype.Text {
	if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 || strings.HasPrefix(s, hexed) {
		s = hexed + hex.EncodeToString([]byte(s))
	}
	return pgtype.Text{String: s, Valid: s != ""}
}

// failure returns the text with which a run failed as it is stored: null if the run has not failed.
func failure(h *journal.Head) pgtype.Text {
	if !h.Status.IsFailure() {
		return pgtype.Text{}
	}
	t := text(h.Error)
	t.Valid = true
	return t
}

// legal returns the original of a string that was stored by text.
func legal(t pgtype.Text) string {
	if b, err := hex.DecodeString(strings.TrimPrefix(t.String, hexed)); err == nil &&
		strings.HasPrefix(t.String, hexed) {
		return string(b)
	}
	return t.String
}
