package kernel

import (
	"context"
	"fmt"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Note is something that workflow code records in the commit of its turn, without waiting: a
// value, a fact for observers, or a change of a value that the run shows. It is recorded once. On
// replay the note returns the recorded outcome.
type Note struct {
	Kind   journal.Kind
	Name   string
	Key    string
	Status journal.Status // the status of the run from here on; zero if it stays
	Detail *journal.Detail
	// Complete is called before the note is recorded for the first time, and may set its detail by
	// the settings of the engine; nil for nothing to set.
	Complete func(*Config)
	// Produce makes the payload. It is workflow code.
	Produce func() ([]byte, *journal.Failure)

	post *store.Post // the message in the same commit
}

// inert reports whether a note that is recorded twice changes nothing outside the run.
func (n *Note) inert() bool {
	return n.Kind != journal.EventEmitted && (n.Kind != journal.ValueRecorded || n.Status != 0)
}

// TakeNote records a note, or returns the recorded outcome.
func TakeNote(ctx context.Context, n Note) (Outcome, error) {
	what := call{"record", n.Name}
	s, err := inside(ctx, what)
	if err != nil {
		return Outcome{}, err
	}
	r := s.run
	defer r.mu.Unlock()
	op, rec := s.ask(asked{name: n.Name, key: n.Key, class: isNote, inert: n.inert()})
	// the status that the run ends with is decided already
	if c := r.ending.closing(); rec == nil && n.Status.IsDecided() && c != nil && !c.delivered {
		c.deliver()
		return Outcome{}, c.end
	}
	if n.Complete != nil && (rec == nil || rec.ended == nil) {
		n.Complete(&r.k.cfg)
	}
	e := &journal.Entry{Kind: n.Kind, Status: n.Status, Op: op, Detail: n.Detail}
	if n.Kind == journal.EventEmitted {
		n.Detail.Message = string(r.id()) + "/" + s.path + op.String()
	}
	if rec != nil && rec.ended != nil {
		e = rec.ended
	} else if f := s.produce(n, e); f != nil && (n.Kind != journal.ValueRecorded ||
		!s.fails(e, f)) {
		return Outcome{Failure: f}, nil
	}
	r.noted(e)
	o := &operation{run: r, scope: s, id: op, class: isNote, outcome: Outcome{
		Data: e.Data, Failure: e.Failure(), stored: storedAt(e),
	}}
	if n.Kind != journal.ValueRecorded {
		return Outcome{Detail: e.Detail}, nil
	}
	return s.payload(o)
}

// produce makes the payload of a note and appends its entry.
func (s *scope) produce(n Note, e *journal.Entry) *journal.Failure {
	r := s.run
	var data []byte
	if n.Produce != nil {
		var d []byte
		var f *journal.Failure
		spill := journal.Number(0)
		s.branch.withoutLock(func() {
			if d, f = n.Produce(); f == nil && n.spills() {
				spill, f = s.spillOver(n.Name, &d)
			}
		})
		if f != nil {
			return f
		}
		data, e.Spill = d, spill
	}
	if e.Spill == 0 {
		e.Data = data
	}
	if err := s.ended(); err != nil {
		return &journal.Failure{Code: journal.CodeOf(err), Message: err.Error()}
	}
	e.Seq = r.append(*e)
	r.values.decides(e)
	if n.post != nil {
		r.send(outgoing{post: n.post})
	}
	e.Data = data
	return nil
}

// spills reports whether the payload may be in rows of its own. A store finds runs by the value of
// an attribute, and headers are read with the head of a run.
func (n Note) spills() bool {
	return n.Kind != journal.AttributeSet && n.Kind != journal.HeaderSet
}

// fails records that Produce has failed. The code has seen the failure too. It returns false if
// nothing can be recorded any more.
func (s *scope) fails(e *journal.Entry, f *journal.Failure) bool {
	if s.ended() != nil {
		return false
	}
	e.Detail = &journal.Detail{Failure: f}
	e.Seq = s.run.append(*e)
	return true
}

// noted changes the run by a note, live and on replay.
func (r *run) noted(e *journal.Entry) {
	switch e.Kind {
	case journal.ValueRecorded:
		if !setsPhase(e) {
			return
		}
		before := r.values.decided()
		r.values.enter(e)
		// the run's timeout can end it again
		if before != 0 && r.values.decided() == 0 && !r.gone() {
			r.deadline.stop()
			r.overdue()
		}
	case journal.DeadLettered:
		r.deadLetters.note(e)
	default:
		r.values.note(e)
	}
}

// setsPhase reports whether workflow code has set the status of the entry. Otherwise the status is
// where the run was besides.
func setsPhase(e *journal.Entry) bool {
	return e.Kind == journal.ValueRecorded &&
		(e.Status.IsDecided() || e.Status == journal.Running || e.Status == journal.Trying) &&
		e.Status != journal.CompensationFailed
}

// Version returns the number that is recorded for a change. If none is recorded, it decides one: 0
// if code that ran before the change has recorded something that is not asked for yet, else max.
// first means that code which knows the change asks for it before anything else. Then it is also 0
// if another build has called the code of the run first and has not decided.
func Version(ctx context.Context, change string, max int, first bool) (int, error) {
	what := call{"version", change}
	s, err := inside(ctx, what)
	if err != nil {
		return 0, err
	}
	r := s.run
	defer r.mu.Unlock()
	if known, ok := r.values.version(change); ok {
		s.mustKnow(change, known, max)
		return known, nil
	}
	op := journal.Op{Name: change, Key: versionKey, Occ: 1}
	v := max
	if m := r.memo; m != nil {
		rec, err := m.ask(op, isVersion)
		switch {
		case err != nil:
			s.branch.mismatch(err)
		case rec != nil:
			v = rec.ended.Detail.Version
			s.mustKnow(change, v, max)
			r.values.know(change, v)
			return v, nil
		case m.unasked(s.id) != nil, first && m.admitted && m.begun != r.k.cfg.Build:
			v = 0
		}
	}
	if max == 0 {
		return 0, nil
	}
	r.values.know(change, v)
	r.append(journal.Entry{Kind: journal.VersionMarked, Op: op, Detail: &journal.Detail{
		Version: v,
	}})
	return v, nil
}

// mustKnow suspends the run if newer code than this decided on a change. A build that knows the
// change goes on when the run is resumed.
func (s *scope) mustKnow(change string, version, max int) {
	if version > max {
		s.branch.mismatch(fmt.Errorf(
			"the run has version %d of %q, this build knows up to %d: an older build has taken "+
				"up a newer run; resume it once a newer build runs",
			version, change, max,
		))
	}
}

// versionKey distinguishes versions from operations that the author gives the same name.
const versionKey = ownNames + "version"
