package orchestrator_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/orchestrator"
)

// A clean-up takes the state away, and neither what is to be emitted nor what was seen, wherever
// the process dies.
//
// spec
func TestACleanUpLosesNoEventWhereverAProcessDies(t *testing.T) {
	const most = 100
	want := []string{"counted0 1", "counted1 1", "counted0 2", "counted1 2"}
	archive := &orchestrator.Local[orchestrator.Record]{}
	for name, over := range map[string]func(*process) orchestrator.Memory[orchestrator.Record]{
		"deletes": func(p *process) orchestrator.Memory[orchestrator.Record] {
			return orchestrator.Deleting{Memory: p}
		},
		"archives": func(p *process) orchestrator.Memory[orchestrator.Record] {
			return orchestrator.Archiving{Memory: p, To: archive}
		},
	} {
		for _, after := range []bool{false, true} {
			n, done := 1, false
			for ; n < most && !done; n++ {
				archive = &orchestrator.Local[orchestrator.Record]{}
				synctest.Test(t, func(t *testing.T) {
					p := &process{place: &place{}, dies: n, after: after}
					first := p
					left := []event.Event{
						happens("1", "begin"), happens("2", "end"), happens("2", "end"),
						happens("1", "begin"),
					}
					for len(left) > 0 {
						o := p.begin()
						o.Memory = over(p)
						if _, err := o.On(t.Context(), left[0]); err == nil {
							left = left[1:]
						} else if !errors.Is(err, errCrash) {
							t.Fatal(err)
						}
						if p.dead {
							p = &process{place: p.place}
							time.Sleep(2 * time.Minute)
						}
					}
					if got := p.heard(); !slices.Equal(got, want) {
						t.Errorf("%s, death at call %d: a consumer hears %q", name, n, got)
					}
					s, err := p.memory.Read(t.Context(), "a", nil)
					if err != nil || s.Value.State != nil || len(s.Value.Seen) != 2 ||
						s.Value.Ended != orchestrator.InstanceFinished {
						t.Errorf("%s, death at call %d: %+v, %v", name, n, s, err)
					}
					kept, err := archive.Read(t.Context(), "a", nil)
					if name == "archives" && (err != nil || kept == nil ||
						string(kept.Value.State) != "2") {
						t.Errorf("death at call %d: the archive has %+v, %v", n, kept, err)
					}
					done = !first.dead || t.Failed()
				})
			}
			if n < 12 || n == most {
				t.Errorf("a process makes %d calls", n)
			}
		}
	}
}

// spec: A-8
func TestACleanUpThatFailsStopsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{place: &place{}}
		closed := &orchestrator.Local[orchestrator.Record]{}
		if _, err := closed.Lock(t.Context(), "a", time.Hour, nil); err != nil {
			t.Fatal(err)
		}
		for _, e := range []event.Event{happens("1", "begin"), happens("2", "end")} {
			o := p.begin()
			o.Memory = orchestrator.Archiving{Memory: p, To: closed}
			if out, err := o.On(t.Context(), e); out != orchestrator.EventHandled || err != nil {
				t.Errorf("%s, %v", out, err)
			}
		}
		s, err := p.memory.Read(t.Context(), "a", nil)
		if err != nil || string(s.Value.State) != "2" || len(p.heard()) != 4 {
			t.Errorf("%+v, %v, %q", s, err, p.heard())
		}
	})
}

// spec: A-8
func TestAfterACleanUpNothingIsLeftToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{place: &place{}}
		for _, e := range []event.Event{happens("1", "begin"), happens("2", "end")} {
			o := p.begin()
			o.Memory = orchestrator.Deleting{Memory: p}
			if _, err := o.On(t.Context(), e); err != nil {
				t.Error(err)
			}
		}
		s, err := p.memory.Read(t.Context(), "a", nil)
		if err != nil || s.Value.State != nil || s.Value.Outbox != nil || s.Value.Unclean {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// spec: A-8
func TestAStateIsKeptAsLongAsItsEndSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{place: &place{}}
		keep := func(subject string, r orchestrator.Record) time.Duration {
			if string(r.State) != "2" {
				t.Errorf("%s ends with %s", subject, r.State)
			}
			return map[string]time.Duration{"at once": 0, "day": 24 * time.Hour,
				"week": 7 * 24 * time.Hour, "ever": -1}[subject]
		}
		memory := func(p *process) orchestrator.Retaining {
			return orchestrator.Retaining{Memory: p, Keep: keep}
		}
		subjects := []string{"at once", "day", "week", "ever"}
		for _, subject := range subjects {
			for _, e := range []event.Event{happens("1", "begin"), happens("2", "end")} {
				o := p.begin()
				o.Memory = memory(p)
				e.Subject = subject
				if _, err := o.On(t.Context(), e); err != nil {
					t.Error(err)
				}
			}
		}
		has := func() (all []string) {
			for _, subject := range subjects {
				s, err := p.memory.Read(t.Context(), subject, nil)
				if err != nil || len(s.Value.Seen) != 2 {
					t.Errorf("%s: %+v, %v", subject, s, err)
				}
				if s.Value.State != nil {
					all = append(all, subject)
				}
			}
			return all
		}
		// Each sweep dies at a call, a little later each time, and the next one goes on.
		sweeps := func() (n int) {
			for dies := 1; dies < 1000; dies++ {
				dying := &process{place: p.place, dies: dies, after: dies%2 == 0}
				removed, err := memory(dying).Sweep(t.Context())
				if n += removed; err == nil {
					return n
				}
				time.Sleep(2 * time.Minute)
			}
			t.Error("it never ends")
			return n
		}
		for _, c := range []struct {
			after time.Duration
			want  []string
		}{
			{time.Minute, []string{"day", "week", "ever"}},
			{23 * time.Hour, []string{"day", "week", "ever"}},
			{4 * time.Hour, []string{"week", "ever"}},
			{7 * 24 * time.Hour, []string{"ever"}}, {1000 * time.Hour, []string{"ever"}},
		} {
			time.Sleep(c.after)
			sweeps()
			if got := has(); !slices.Equal(got, c.want) {
				t.Errorf("%v later, there are %q, want %q", c.after, got, c.want)
			}
		}
	})
}

// spec: A-8
func TestACleanUpIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, count := &process{place: &place{}}, &orchestrator.Counter{}
		closed := &orchestrator.Local[orchestrator.Record]{}
		for i, to := range []*orchestrator.Local[orchestrator.Record]{closed, {}} {
			if _, err := closed.Lock(t.Context(), "a", time.Hour, nil); err != nil {
				t.Fatal(err)
			}
			for _, kind := range []string{"begin", "end"} {
				o := p.begin()
				o.Observe = count.Count
				o.Memory = orchestrator.Archiving{Memory: p, To: to}
				e := happens(kind, kind)
				if i == 1 {
					e.Subject = "b"
				}
				if _, err := o.On(t.Context(), e); err != nil {
					t.Error(err)
				}
			}
		}
		got := count.Counts()
		if got[orchestrator.CountUnclean] != 1 || got[orchestrator.CountCleanUps] != 1 {
			t.Errorf("counted: %v", got)
		}
	})
}
