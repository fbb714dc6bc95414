package judge

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/torture/actor"
	"github.com/perdure/perdure/internal/torture/play"
	"github.com/perdure/perdure/internal/torture/program"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// good returns correct evidence of one program with one step.
func good(t *testing.T) Evidence {
	t.Helper()
	p := &program.Program{
		Workflow: "code",
		End:      "returns",
		Body:     program.Block{{ID: 1, Kind: program.Tx, Way: "plain"}},
	}
	label := "p/1.0/do"
	out, err := json.Marshal(play.Output{
		Facts:   []string{"tx1 done"},
		Numbers: map[string]int64{label: 7},
	})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(100, 0)
	step := journal.Op{Name: "tx1", Occ: 1}
	r := &Run{
		Head: journal.Head{
			ID: "r", WorkflowID: "p", Workflow: "program", Status: journal.Completed,
		},
		Entries: []journal.Entry{
			{Run: 1, Seq: 1, Kind: journal.RunStarted, Status: journal.Pending, At: at},
			{
				Run: 1, Seq: 2, Kind: journal.StepCompleted, Status: journal.Running, Op: step,
				At: at.Add(2 * time.Second), Took: time.Second, Data: []byte("7"),
			},
			{
				Run: 1, Seq: 3, Kind: journal.RunCompleted, Status: journal.Completed,
				At: at.Add(3 * time.Second), Data: out,
			},
		},
	}
	r.State, r.Bad = Audit(r.Head, r.Entries)
	return Evidence{
		Cases: []*actor.Case{actor.NewCase(p, "p")}, Runs: []*Run{r}, Told: true,
		Calls: []Call{
			{
				Call: play.Call{
					Label: label, Key: "k", Run: "r", Step: "tx1", Began: at.Add(time.Second),
				},
				Gave: 7,
			},
			{Call: play.Call{Label: told + "r", Run: "r"}, Gave: 8},
		},
		Money: []Money{{label, 7, -1}, {label, 7, 1}},
	}
}

// A retry of a parent may begin a child anew that came after a failure in its branch, and that run
// has keys of its own. Nothing else has.
//
// spec: B-27
func TestJudgeLetsAChildThatIsBegunAnewHaveItsKeys(t *testing.T) {
	failed := &journal.Detail{Failure: &journal.Failure{Message: "too late"}}
	child := &journal.Detail{Other: "a"}
	// a branch with a branch in it, in which a wait fails before the child begins
	late := []journal.Entry{
		{Seq: 1, Kind: journal.ScopeOpened},
		{Seq: 2, Kind: journal.ScopeOpened, Op: journal.Op{Scope: 1}},
		{Seq: 3, Kind: journal.WaitEnded, Op: journal.Op{Scope: 2, Name: "w"}, Detail: failed},
		{Seq: 4, Kind: journal.ChildStarted, Op: journal.Op{Scope: 1}, Detail: child},
	}
	beside := slices.Clone(late)
	beside[1].Op.Scope = 0
	for name, c := range map[string]struct {
		retried bool
		status  journal.Status
		parent  []journal.Entry
		wrong   bool
	}{
		"it came late":              {true, journal.Failed, late, false},
		"no retry":                  {false, journal.Failed, late, true},
		"the parent has not failed": {true, journal.Completed, late, true},
		"a failure beside":          {true, journal.Failed, beside, true},
		"a failure after it": {
			true, journal.Failed, []journal.Entry{late[0], late[1], late[3], late[2]}, true,
		},
	} {
		parent := &Run{Head: journal.Head{Number: 7, Status: c.status}, Entries: c.parent}
		b := &bench{
			Evidence: Evidence{Runs: []*Run{parent}}, runs: map[journal.RunID]*Run{},
			calls: map[string][]Call{}, retried: map[string]bool{"p": c.retried},
		}
		for id, of := range map[journal.RunID]journal.Number{"a": 7, "b": 8} {
			b.runs[id] = &Run{Head: journal.Head{ID: id, Parent: of}}
			b.calls["p/1.0/do"] = append(b.calls["p/1.0/do"],
				Call{Call: play.Call{Label: "p/1.0/do", Run: string(id), Key: string(id)}})
		}
		b.keys()
		if (len(b.bad) > 0) != c.wrong {
			t.Errorf("%s: %v", name, b.bad)
		}
	}
}

// A fork does its steps again under keys of its own, which an effect may have beside that of its
// source. No other run has new keys.
//
// spec: B-27, R-15
func TestJudgeLetsAForkHaveItsKeys(t *testing.T) {
	for name, c := range map[string]struct {
		by   journal.Action
		keys []string
		// the key under which an effect was undone
		undone string
		want   string
	}{
		"a fork":  {journal.ActionFork, []string{"a/do", "b/do"}, "", ""},
		"a retry": {journal.ActionRetry, []string{"a/do"}, "", ""},
		"a retry under a key of its own": {
			journal.ActionRetry, []string{"a/do", "b/do"}, "", "took place under 2 keys",
		},
		"a fork under the key of its source": {
			journal.ActionFork, []string{"a/do", "a/do"}, "", "the key of another run",
		},
		"a third key": {
			journal.ActionFork, []string{"a/do", "b/do", "c/do"}, "", "took place under 3 keys",
		},
		"a third key when the fork was undone": {
			journal.ActionFork, []string{"a/do", "b/do", "a/c/do"}, "b/do", "",
		},
	} {
		b := &bench{
			runs:  map[journal.RunID]*Run{"a": {Head: journal.Head{ID: "a"}}},
			calls: map[string][]Call{}, retried: map[string]bool{"p": true},
			undoing: map[string]map[string]time.Time{c.undone: {}},
		}
		b.runs["b"] = &Run{Head: journal.Head{ID: "b"}, Entries: []journal.Entry{{
			Detail: &journal.Detail{StartDetail: journal.StartDetail{
				Retried: "a", Action: c.by,
			}},
		}}}
		for i, key := range c.keys {
			b.calls["p/1.0/do"] = append(b.calls["p/1.0/do"], Call{Call: play.Call{
				Label: "p/1.0/do", Run: []string{"a", "b", "a"}[i], Key: key,
			}})
		}
		b.keys()
		finds(t, name, strings.Join(b.bad, "; "), c.want)
	}
}

// Each error is found by itself, and correct evidence has none.
//
// spec: B-27
func TestJudgeSeesWhatIsWrong(t *testing.T) {
	call := func(e *Evidence, change func(*Call)) {
		c := e.Calls[0]
		c.Gave = 9
		change(&c)
		e.Calls = append(e.Calls, c)
	}
	for want, spoil := range map[string]func(*Evidence){
		"":                  func(*Evidence) {},
		"is lost":           func(e *Evidence) { e.Runs = nil },
		"ended FAILED, not": func(e *Evidence) { e.Runs[0].Head.Status = journal.Failed },
		"has not ended":     func(e *Evidence) { e.Runs[0].Head.Status = journal.Running },
		"under 2 keys":      func(e *Evidence) { call(e, func(c *Call) { c.Key = "other" }) },
		"key k is that of": func(e *Evidence) {
			call(e, func(c *Call) { c.Label = "p/2.0/do" })
		},
		"took place and must not": func(e *Evidence) {
			call(e, func(c *Call) { c.Label, c.Key = "p/2.0/do", "l" })
		},
		"did not take place": func(e *Evidence) { e.Calls = e.Calls[1:] },
		"was called again": func(e *Evidence) {
			call(e, func(c *Call) { c.Began = c.Began.Add(time.Hour) })
		},
		"2 results that the code": func(e *Evidence) {
			call(e, func(*Call) {})
			call(e, func(c *Call) { c.After, c.Number = c.Label, 9 })
		},
		"the world never gave": func(e *Evidence) { e.Calls[0].Gave = 6 },
		"store: refused: odd": func(e *Evidence) {
			why := &journal.Failure{Message: (&store.DataError{Err: errors.New("odd")}).Error()}
			// a later attempt has succeeded
			e.Runs[0].Entries[1].Detail = &journal.Detail{Failure: why}
		},
		"which is not there": func(e *Evidence) {
			call(e, func(c *Call) { c.Run = "gone" })
		},
		"gave other facts": func(e *Evidence) {
			e.Cases[0].Want.Facts = []string{"tx1 failed"}
		},
		"acknowledged 1 times, taken 0": func(e *Evidence) {
			e.Cases[0].Acked = []program.Message{{To: "p", Name: "s", Value: 3}}
		},
		"sent 1 times and taken 2": func(e *Evidence) {
			e.Cases[0].Acked = []program.Message{{To: "p", Name: "s", Value: 3}}
			took := journal.Entry{
				Kind:   journal.SignalConsumed,
				Op:     journal.Op{Name: "s", Occ: 1},
				Data:   []byte("3"),
				Detail: &journal.Detail{MessageDetail: journal.MessageDetail{Mail: 1}},
			}
			e.Runs[0].Entries = append([]journal.Entry{took, took}, e.Runs[0].Entries...)
		},
		"money is not conserved": func(e *Evidence) { e.Money = e.Money[1:] },
		"counts 2 times":         func(e *Evidence) { e.Money = append(e.Money, e.Money...) },
		"its transaction has":    func(e *Evidence) { e.Money[0].Number, e.Money[1].Number = 5, 5 },
		"its transaction is not": func(e *Evidence) { e.Money = nil },
		"no listener was told":   func(e *Evidence) { e.Calls = e.Calls[:1] },
		"there is a hole": func(e *Evidence) {
			r := e.Runs[0]
			r.Entries = slices.Delete(r.Entries, 1, 2)
			r.State, r.Bad = Audit(r.Head, r.Entries)
		},
		"before its time": func(e *Evidence) {
			r := e.Runs[0]
			begins := journal.Entry{
				Run: r.Head.Number, Seq: 2, Kind: journal.RunClaimed, Status: journal.Running,
				At: r.Entries[0].At,
			}
			started := r.Entries[0]
			started.Detail = &journal.Detail{Due: begins.At.Add(1)}
			_, r.Bad = Audit(r.Head, []journal.Entry{started, begins})
		},
		"ended StepCompleted and then": func(e *Evidence) {
			r := e.Runs[0]
			again := r.Entries[1]
			again.Seq, again.Kind = 3, journal.StepFailed
			_, r.Bad = Audit(r.Head, []journal.Entry{r.Entries[0], r.Entries[1], again})
			if len(r.Bad) > 0 && strings.Contains(r.Bad[0], "does not follow") {
				r.Bad[0] = "step ended StepCompleted and then, as the fold says itself"
			}
		},
	} {
		e := good(t)
		spoil(&e)
		bad := Judge(e)
		switch {
		case want == "" && len(bad) > 0:
			t.Errorf("what is right is called wrong: %q", bad)
		case want != "" && !slices.ContainsFunc(bad, func(b string) bool {
			return strings.Contains(b, want)
		}):
			t.Errorf("it does not say %q, but %q", want, bad)
		}
	}
}

// The result of a program is that of the run that began last.
//
// spec: B-27
func TestTheLastRunIsTheOneThatBeganLast(t *testing.T) {
	e := good(t)
	before := *e.Runs[0]
	before.Head.ID, before.Head.Status = "before", journal.ContinuedAsNew
	before.Head.Created = before.Head.Created.Add(-time.Second)
	e.Runs = append([]*Run{&before}, e.Runs...)
	for _, bad := range Judge(e) {
		if strings.Contains(bad, "ended CONTINUED_AS_NEW") {
			t.Error(bad)
		}
	}
}

// An open run is an orphan exactly if no row wakes it.
//
// spec: B-27
func TestOrphansAreThoseThatNothingWakes(t *testing.T) {
	ctx, now := context.Background(), time.Unix(1000, 0)
	for name, c := range map[string]struct {
		change  func(*journal.Head)
		entries []journal.Entry
		orphan  bool
	}{
		"due":     {func(h *journal.Head) { h.Wake = now }, nil, false},
		"no wake": {func(*journal.Head) {}, nil, true},
		"signal": {
			func(*journal.Head) {},
			[]journal.Entry{{Kind: journal.WaitStarted, Op: journal.Op{Name: "s", Occ: 1}}},
			false,
		},
		"dead engine": {func(h *journal.Head) { h.Owner = 77 }, nil, true},
		"suspended":   {func(h *journal.Head) { h.Status = journal.Suspended }, nil, false},
		"timer": {func(h *journal.Head) { h.Wake = now.Add(time.Hour) }, []journal.Entry{
			timer(now.Add(time.Hour)),
		}, false},
		"timer missed": {func(h *journal.Head) { h.Wake = now.Add(2 * time.Hour) }, []journal.Entry{
			timer(now.Add(time.Hour)),
		}, true},
		"timer alone": {func(*journal.Head) {}, []journal.Entry{timer(now.Add(time.Hour))}, true},
		"child gone": {func(*journal.Head) {}, []journal.Entry{
			{Kind: journal.ChildStarted, Op: journal.Op{Name: "c", Occ: 1}, Detail: &journal.Detail{
				Other: "nobody",
			}},
		}, true},
	} {
		s := memory.New()
		reserved, err := s.Claim(ctx, store.ReserveID{})
		if err != nil {
			t.Fatal(err)
		}
		n, err := journal.MakeNumber(reserved.Engine, 1)
		if err != nil {
			t.Fatal(err)
		}
		info, err := s.Info(ctx)
		if err != nil {
			t.Fatal(err)
		}
		h := journal.Head{
			Number: n, ID: journal.MakeRunID(info.Database, n), WorkflowID: "w", Workflow: "f",
			Status: journal.Waiting, Created: now, Chain: n,
		}
		c.change(&h)
		entries := []journal.Entry{
			{Run: n, Seq: 1, Kind: journal.RunStarted, Status: h.Status, At: now},
		}
		for i, e := range c.entries {
			e.Run, e.Seq, e.At = n, int64(i+2), now
			entries = append(entries, e)
		}
		if err := s.Commit(ctx, &store.Group{
			Now:     now,
			Changes: []store.Change{{Run: n, Create: true, Head: &h, Entries: entries}},
		}); err != nil {
			t.Fatal(name, err)
		}
		found, err := Orphans(ctx, s)
		if err != nil || (len(found) > 0) != c.orphan {
			t.Errorf("%s: %q, %v", name, found, err)
		}
	}
}

func timer(due time.Time) journal.Entry {
	return journal.Entry{
		Kind:   journal.TimerRegistered,
		Op:     journal.Op{Name: "t", Occ: 1},
		Detail: &journal.Detail{Due: due},
	}
}

// A lost try and a repeated confirm are distinguished from one of each.
func TestJudgeTellsTriesFromConfirms(t *testing.T) {
	for _, amounts := range [][]int64{{1, 1}, {10, 10}, {1}, {1, 10, 10}} {
		b := &bench{
			held: map[string]int64{},
			byID: map[string][]*Run{"p": {{Head: journal.Head{Status: journal.Confirmed}}}},
		}
		b.Cases = []*actor.Case{{ID: "p", Program: &program.Program{Workflow: "tcc-money"}}}
		for i := range 2 {
			for _, n := range amounts {
				b.Money = append(b.Money, Money{
					Label: program.Label("p", i, 0, "held"), Number: 1, Amount: n,
				})
			}
		}
		if b.money(nil); len(b.bad) == 0 {
			t.Errorf("bookings of %v pass as a try and a confirm", amounts)
		}
	}
}
