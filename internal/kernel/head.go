package kernel

import (
	"cmp"
	"strings"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A standing is the head of a run: the one row of it that lists and claims read.
//
// Invariants: now is the head as of the last entry of the log. If the store does not have it, seqOf
// is the entry that changed it, and the head is written with the change that has this entry:
// neither before nor after. The head of a run that is not in the store yet goes with the first
// change.
//
// The mu of the run guards it, but for the parts that never change: number, id, created and
// identity may be called without it.
type standing struct {
	now     journal.Head
	seqOf   int64     // the entry that changed it; 0 if the store has it
	create  bool      // it is not in the store yet
	since   time.Time // see store.Change
	unloads bool      // the next change that writes the head ends the activation
}

// standingAs returns a standing with a head that the store has.
func standingAs(h journal.Head) standing { return standing{now: h} }

// beginNew makes the run be created with its first change. A run of its workflow ID that has ended
// since counts as the same; zero means none does.
func (s *standing) beginNew(since time.Time) { s.create, s.since = true, since }

// number returns the number of the run.
func (s *standing) number() journal.Number { return s.now.Number }

// id returns the run ID.
func (s *standing) id() journal.RunID { return s.now.ID }

// created returns when the run was started.
func (s *standing) created() time.Time { return s.now.Created }

// identity returns only those parts of the head that never change.
func (s *standing) identity() journal.Head {
	h := &s.now
	return journal.Head{
		Number: h.Number, ID: h.ID, WorkflowID: h.WorkflowID, Workflow: h.Workflow,
		Pattern: h.Pattern, Created: h.Created, Chain: h.Chain, Parent: h.Parent,
	}
}

// status returns the status as of the last entry.
func (s *standing) status() journal.Status { return s.now.Status }

// head returns the head as of the last entry.
func (s *standing) head() journal.Head { return s.now }

// leaveHead sets the head to that of a run that nobody executes.
func (s *standing) leaveHead(status journal.Status, cause string, wake time.Time) {
	s.now.Status, s.now.Cause, s.now.Owner, s.now.Wake = status, cause, 0, wake
}

// endHead sets the head to that of a run that ends now with that entry, of that sequence.
func (s *standing) endHead(e *journal.Entry, now time.Time, last int64, keep time.Duration) {
	s.leaveHead(e.Status, "", time.Time{})
	s.now.Ended, s.now.Last, s.now.Keep = later(now, s.now.Created), last, keep
	s.now.Error = errorOf(e)
}

// errorOf returns the text of the failure in the last entry of a run, or of the reason for its end;
// empty if the run reached its goal. It is valid UTF-8 without zero bytes.
func errorOf(e *journal.Entry) string {
	if !e.Status.IsFailure() || e.Detail == nil {
		return ""
	}
	text := cmp.Or(e.Detail.Failure.Text(), e.Detail.Reason)
	if len(text) > journal.MaxError {
		text = text[:journal.MaxError]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "")
}

// own sets the owner again: the engine executes the run.
func (s *standing) own(e journal.EngineID) { s.now.Owner = e }

// because sets the cause of the status.
func (s *standing) because(cause string) { s.now.Cause = cause }

// unloadHead makes the next change of the head let the run leave memory, only if the run has seen
// all messages up to seen, and there are no others.
func (s *standing) unloadHead(seen int64) {
	s.now.Mail = seen
	s.unloads = !s.create // nobody has sent anything to a run that is not there yet
}

// become records that an entry has changed the status.
func (s *standing) become(status journal.Status, seq int64) { s.now.Status, s.seqOf = status, seq }

// reopen removes the end of the run from the head.
func (s *standing) reopen() { s.now.Ended, s.now.Last, s.now.Error = time.Time{}, 0, "" }

// into puts the head into a change with the entries up to sealed, if it is to be written with
// these.
func (s *standing) into(c *store.Change, sealed int64) {
	c.Run, c.Create, c.Since = s.now.Number, s.create, s.since
	if s.seqOf != 0 && s.seqOf <= sealed || s.create || s.unloads {
		head := s.now
		c.Head, c.Unload, s.seqOf, s.create, s.unloads = &head, s.unloads, 0, false, false
	}
}

// takeBack makes the head of a change be written once more, as changed by the entry of that
// sequence.
func (s *standing) takeBack(c *store.Change, seq int64) {
	if c.Head != nil {
		s.seqOf, s.unloads = max(s.seqOf, seq), s.unloads || c.Unload
	}
}

// writtenWith returns the entry that the head is to be written with; 0 for none.
func (s *standing) writtenWith() int64 { return s.seqOf }
