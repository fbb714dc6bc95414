//go:build unix

package main

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/internal/torture/judge"
	"github.com/perdure/perdure/internal/torture/program"
	"github.com/perdure/perdure/store"
)

// A slow store takes its time for each commit, so that many changes are in the next one. Largest is
// the largest number of changes in one.
type slow struct {
	store.Store
	takes   time.Duration
	largest *atomic.Int64
}

// Commit commits after a while.
func (s slow) Commit(ctx context.Context, g *store.Group) error {
	s.largest.Store(max(s.largest.Load(), int64(len(g.Changes))))
	time.Sleep(s.takes)
	return s.Store.Commit(ctx, g)
}

// Slots reads the slots of the store behind it.
func (s slow) Slots(ctx context.Context, q store.SlotQuery) ([]store.Slot, error) {
	return s.Store.(store.SlotReader).Slots(ctx, q)
}

// added are facts that only a variant of a program has.
var added = regexp.MustCompile(`(^|; )(nap\d+ woke|child\d+ child )`)

// comesTo returns how a program ends that runs in a bubble of its own, on a store that is that slow
// and with others beside it, its facts, and its effects. The facts of a child include those of its
// steps.
func comesTo(t *testing.T, p *program.Program, s slow, beside ...*program.Program) (out []string) {
	t.Helper()
	id := fmt.Sprintf("p%d-0", p.Seed)
	synctest.Test(t, func(t *testing.T) {
		l := inMemory(t)
		open := l.open
		l.open = func() store.Store { return slow{open(), s.takes, s.largest} }
		for _, bad := range l.torture(p.Seed, append([]*program.Program{p}, beside...), 3,
			100*time.Millisecond) {
			t.Error(bad)
		}
		left := l.open()
		defer left.Close()
		runs, err := judge.Read(context.Background(), left)
		if err != nil {
			t.Error(err)
		}
		for _, r := range runs {
			if r.Head.WorkflowID == id {
				said := added.ReplaceAllString(strings.Join(judge.Facts(r), "; "), "$1")
				facts := strings.FieldsFunc(said, func(r rune) bool {
					return strings.ContainsRune(";{}", r)
				})
				for i := range facts {
					facts[i] = strings.TrimSpace(facts[i])
				}
				slices.Sort(facts)
				out = append(out, fmt.Sprint(r.Head.Status, " ",
					slices.DeleteFunc(facts, func(f string) bool { return f == "" })))
			}
		}
		slices.Sort(out)
		effects := map[string]bool{}
		for _, c := range l.ledger.Entries() {
			if strings.HasPrefix(c.Label, id+"/") {
				effects[c.Label] = true
			}
		}
		out = append(out, slices.Sorted(maps.Keys(effects))...)
	})
	return out
}

// A program has the same result whatever is in one commit, with a sleep between its operations, and
// with its steps as children.
//
// spec: B-27
func TestTheSameProgramComesToTheSame(t *testing.T) {
	if err := registered(); err != nil {
		t.Fatal(err)
	}
	larger, most := 0, 6
	var beside []*program.Program
	for range 8 {
		beside = append(beside, &program.Program{
			Workflow: "code",
			End:      "returns",
			Body:     program.Block{{ID: 1, Kind: program.Loop, Way: "spread", N: 20}},
		})
	}
	for seed := range seeds(t, 10_000) {
		p := program.Generate(seed, program.Limits{Workflow: "code", Avoid: unreal})
		if !p.Calm() {
			continue
		}
		var alone, together atomic.Int64
		want := comesTo(t, p, slow{largest: &alone})
		got := map[string][]string{
			"group": comesTo(t, p, slow{takes: 5 * time.Millisecond, largest: &together},
				beside...),
		}
		if together.Load() > alone.Load() {
			larger++
		}
		for change, variant := range p.Variants() {
			got[change] = comesTo(t, variant, slow{largest: &alone})
		}
		for change, had := range got {
			if !slices.Equal(want, had) {
				t.Errorf("seed %d with another %s comes to\n%q\nnot\n%q", seed, change, had, want)
			}
		}
		if most--; most == 0 || t.Failed() {
			break
		}
	}
	if larger == 0 {
		t.Error("no program was in a larger group with others than alone")
	}
}
