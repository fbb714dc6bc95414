package kernel

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
)

// A fakeRun adds rows to a pipeline and hears the verdicts.
type fakeRun struct {
	n       journal.Number
	rows    int
	size    int
	verdict string
}

func (f *fakeRun) take(cs []store.Change, rows, bytes *int, first bool) ([]store.Change, bool) {
	if !first && (f.rows > *rows || f.rows*f.size > *bytes) {
		return cs, false
	}
	*rows -= f.rows
	*bytes -= f.rows * f.size
	if f.rows > 0 {
		cs = append(cs, store.Change{Run: f.n, Entries: make([]journal.Entry, f.rows)})
	}
	f.rows = 0
	return cs, true
}

func (f *fakeRun) committed([]store.Change, bool)    { f.verdict += "committed " }
func (f *fakeRun) refused(_ []store.Change, e error) { f.verdict += "refused: " + e.Error() }

// play pushes runs, lets the pipeline commit them, and returns the groups that reached the store:
// the numbers of their runs.
func play(runs []*fakeRun, commit func(*store.Group) error) (groups [][]journal.Number) {
	p := newPipeline(func(g *store.Group) error {
		err := commit(g)
		if err == nil {
			var ns []journal.Number
			for _, c := range g.Changes {
				ns = append(ns, c.Run)
			}
			groups = append(groups, ns)
		}
		return err
	}, func(observe.Notice) {})
	for _, r := range runs {
		p.push(r)
	}
	p.stop()
	p.loop()
	return groups
}

func fakeRuns(rows ...int) []*fakeRun {
	var runs []*fakeRun
	for i, n := range rows {
		runs = append(runs, &fakeRun{n: journal.Number(i + 1), rows: n, size: 100})
	}
	return runs
}

func TestGroupIsBounded(t *testing.T) {
	for _, c := range []struct {
		rows []int
		size int
		want string
	}{
		{[]int{1, 2, 3}, 100, "[[1 2 3]]"},
		{[]int{4000, 96, 1}, 100, "[[1 2] [3]]"},
		{[]int{10, 5000, 10}, 100, "[[1] [2] [3]]"}, // the large one goes alone, whole
		{[]int{5000, 10, 10}, 100, "[[1] [2 3]]"},
		{[]int{1, 1, 1}, 2 << 20, "[[1 2] [3]]"},
		{[]int{1, 1, 1}, 5 << 20, "[[1] [2] [3]]"},
		{[]int{0, 1, 0}, 100, "[[2]]"}, // a run with nothing to write is in no group
		{nil, 100, "[]"},
	} {
		runs := fakeRuns(c.rows...)
		for _, r := range runs {
			r.size = c.size
		}
		if got := fmt.Sprint(play(runs, func(*store.Group) error { return nil })); got != c.want {
			t.Errorf("rows %v of %d bytes: groups %v, want %s", c.rows, c.size, got, c.want)
		}
	}
}

// The one change that the store refuses is found, and it alone is blamed.
func TestRefusedGroupIsHalved(t *testing.T) {
	for bad := range 9 {
		runs := fakeRuns(1, 1, 1, 1, 1, 1, 1, 1)
		play(runs, func(g *store.Group) error {
			if slices.ContainsFunc(g.Changes, func(c store.Change) bool {
				return int(c.Run) == bad
			}) {
				return &store.DataError{Err: errors.New("bad")}
			}
			return nil
		})
		for _, r := range runs {
			want := "committed "
			if int(r.n) == bad {
				want = "refused: store: refused: bad"
			}
			if r.verdict != want {
				t.Errorf("run %d is bad, and run %d was told %q", bad, r.n, r.verdict)
			}
		}
	}
}

// Every run of a group hears that the store is final.
func TestFinalErrorBlamesNobody(t *testing.T) {
	runs := fakeRuns(1, 1, 1)
	calls := 0
	play(runs, func(*store.Group) error { calls++; return store.ErrFenced })
	for _, r := range runs {
		if r.verdict != "refused: "+store.ErrFenced.Error() {
			t.Errorf("run %d was told %q", r.n, r.verdict)
		}
	}
	if calls != 1 {
		t.Errorf("a final error was tried %d times", calls)
	}
}

// A run that a transaction of the user's holds waits alone, and hears of its changes in their
// order.
func TestWhatIsHeldWaitsAlone(t *testing.T) {
	for _, n := range []int{1, 2, 40} {
		runs := fakeRuns(slices.Repeat([]int{1}, n)...)
		theOne := n / 2
		var mu sync.Mutex
		open, others := true, 0
		var p *pipeline
		p = newPipeline(func(g *store.Group) error {
			mu.Lock()
			defer mu.Unlock()
			for i := range g.Changes {
				if c := &g.Changes[i]; open && int(c.Run) == theOne+1 {
					if len(g.Changes) == 1 && others >= n-1 { // it is alone
						open = false
						runs[theOne].rows = 2
						p.push(runs[theOne]) // its next change does not overtake
					}
					return store.ErrHeld
				}
			}
			others += len(g.Changes)
			return nil
		}, func(observe.Notice) {})
		for _, r := range runs {
			p.push(r)
		}
		p.stop()
		p.loop()
		for i, r := range runs {
			want := "committed "
			if i == theOne {
				want += want
			}
			if r.verdict != want {
				t.Errorf(
					"of %d runs %d is held, and run %d was told %q", n, theOne+1, i+1, r.verdict,
				)
			}
		}
	}
}

func TestGateLetsInWhenThereIsRoom(t *testing.T) {
	g := gate{limit: 100}
	in := 0
	enter := func() { in++ }
	g.pass(enter)
	g.count(101)
	g.pass(enter)
	g.pass(enter)
	if in != 1 {
		t.Fatalf("%d are in while the bound is passed", in)
	}
	g.count(-40)
	if in != 1 {
		t.Fatalf("%d are in with less than half of the limit free", in)
	}
	g.count(-20)
	if in != 3 {
		t.Fatalf("%d are in with room for all", in)
	}
}
