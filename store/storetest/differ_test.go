package storetest

import (
	"testing"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// TestDifferOfEquals compares two databases of one driver, and demands that the random
// operations include all cases to compare.
func TestDifferOfEquals(t *testing.T) {
	for seed := range uint64(5) {
		Differ(t, over(broken{})(), over(broken{})(), seed, 1500)
		Differ(t, over(broken{})(), overMany(broken{})(), seed, 500)
		Differ(t, overMany(broken{})(), overMany(broken{})(), seed, 500)
	}
	met := map[store.Verdict]int{}
	purged, taken := 0, 0
	p := newPlayer(t, over(broken{commit: func(s store.Store, g *store.Group) error {
		err := s.Commit(t.Context(), g)
		for _, c := range g.Changes {
			met[c.Verdict]++
			for _, post := range c.Posts {
				met[post.Verdict]++
			}
			for _, e := range c.Entries {
				if err == nil && e.Kind == journal.SignalConsumed {
					taken++
				}
			}
		}
		return err
	}})(), 1, false)
	for range 3000 {
		if before := len(p.heads); p.play() != "" && len(p.heads) < before {
			purged++
		}
	}
	for v := store.Written; v <= store.Nobody; v++ {
		if met[v] < 5 {
			t.Errorf("verdict %d was met %d times only", v, met[v])
		}
	}
	if purged < 5 || taken < 50 {
		t.Errorf("%d purges removed runs, and %d messages were taken", purged, taken)
	}
	t.Logf("verdicts %v, purges %d, taken %d", met, purged, taken)
}
