package kernel

import (
	"container/list"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
)

// Operations come, and go in any order. The index finds the same operations as a look at all of
// them.
//
// spec: B-3
func TestOpenWaitsAreFoundByMessageAndTime(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	noon := time.Date(2001, 2, 3, 12, 0, 0, 0, time.UTC)
	var w waits
	var all []*operation // in the order in which they began
	for i := range int64(2000) {
		if len(all) > 0 && random.IntN(3) == 0 {
			gone := random.IntN(len(all))
			w.remove(all[gone])
			all = slices.Delete(all, gone, gone+1)
		} else {
			o := &operation{
				class: isTimer, start: i + 1,
				want: want{due: noon.Add(time.Duration(random.IntN(50)) * time.Hour)},
			}
			if random.IntN(2) == 0 {
				o.class, o.forMessage, o.from = isSignal, true, fmt.Sprint("s", random.IntN(5))
				if random.IntN(2) == 0 {
					o.due = time.Time{}
				}
			}
			w.add(o)
			all = append(all, o)
		}
		name := fmt.Sprint("s", random.IntN(5))
		var found, want []*operation
		for o := range w.of(
			addressOf(&journal.Entry{Kind: journal.SignalReceived, Op: journal.Op{Name: name}}),
		) {
			found = append(found, o)
		}
		var next time.Time
		var timer *operation
		for _, o := range all {
			if o.from == name {
				want = append(want, o)
			}
			next = earlier(next, o.due)
			if o.class == isTimer && (timer == nil || o.due.Before(timer.due)) {
				timer = o
			}
		}
		if !slices.Equal(found, want) || !w.next().Equal(next) || w.timer(clock{}) != timer {
			t.Fatalf("seed %d: after %d changes %d operations wait for %s, want %d; the next "+
				"time is %v, want %v; the timer %p, want %p",
				seed, i+1, len(found), name, len(want), w.next(), next, w.timer(clock{}), timer)
		}
	}
	for _, o := range all {
		w.remove(o)
	}
	if len(w.byAddress)+len(w.timers)+len(w.limits) != 0 {
		t.Errorf("%d, %d and %d are left", len(w.byAddress), len(w.timers), len(w.limits))
	}
}

// Each of many waits of one name leaves the line while the others are gone through.
//
// spec: B-3
func TestAWaitMayLeaveTheLineWhileItIsGoneThrough(t *testing.T) {
	var w waits
	var line []*operation
	for range 10 {
		o := &operation{class: isSignal, want: want{forMessage: true, from: "s"}}
		w.add(o)
		line = append(line, o)
	}
	seen := 0
	for o := range w.of(address{journal.SignalReceived, "s"}) {
		if o != line[seen] {
			t.Fatalf("number %d is another one", seen)
		}
		w.remove(o)
		seen++
	}
	if seen != len(line) || w.byAddress[address{journal.SignalReceived, "s"}] != (*list.List)(nil) {
		t.Errorf("%d of %d were seen", seen, len(line))
	}
}
