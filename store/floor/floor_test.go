package floor_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/floor"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
)

func TestRunWritesWholeRuns(t *testing.T) {
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "floor.db"))
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]store.Store{"memory": memory.New(), "sqlite": db} {
		t.Run(name, func(t *testing.T) {
			defer s.Close()
			writesWholeRuns(t, s)
		})
	}
}

func writesWholeRuns(t *testing.T, s store.Store) {
	got, err := floor.Run(t.Context(), s, floor.Options{
		Runs: 50, InFlight: 8, Steps: 3, Payload: 40,
	})
	if err != nil {
		t.Fatal(err)
	}
	// 50 runs, 8 at a time, are 7 rounds of a start and 3 results.
	if got.Runs != 50 || got.Steps != 150 || got.Commits != 7*4 || got.P50 <= 0 ||
		got.P99 < got.P50 || got.StepsPerS <= 0 {
		t.Errorf("the result is %+v", got)
	}
	heads, _, err := s.Find(t.Context(), store.Filter{
		Statuses: []journal.Status{journal.Completed},
	})
	if err != nil || len(heads) != 50 {
		t.Fatalf("%d runs have ended, %v", len(heads), err)
	}
	entries, err := s.Load(t.Context(), heads[0].Number, store.Range{})
	if err != nil || len(entries) != 5 || entries[4].Kind != journal.RunCompleted ||
		len(entries[3].Data) != 40 {
		t.Errorf("a journal is %+v, %v", entries, err)
	}
	if info, err := s.Info(t.Context()); err != nil || len(info.Engines) != 0 {
		t.Errorf("after the end the engines are %v, %v", info.Engines, err)
	}
}

// An impatientStore cancels a context at its second commit.
type impatientStore struct {
	store.Store
	commits int
	cancel  context.CancelFunc
}

func (s *impatientStore) Commit(ctx context.Context, g *store.Group) error {
	if s.commits++; s.commits == 2 {
		s.cancel()
	}
	return s.Store.Commit(ctx, g)
}

func TestRunStopsWhenItsContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &impatientStore{Store: memory.New(), cancel: cancel}
	got, err := floor.Run(ctx, s, floor.Options{Runs: 50, InFlight: 8, Steps: 3})
	if !errors.Is(err, context.Canceled) || s.commits != 2 || got.Commits != 2 || got.Runs != 0 {
		t.Errorf("it gives %+v and %v after %d commits", got, err, s.commits)
	}
	if info, err := s.Info(t.Context()); err != nil || len(info.Engines) != 0 {
		t.Errorf("after the end the engines are %v, %v", info.Engines, err)
	}
}

func TestDisk(t *testing.T) {
	dir := t.TempDir()
	perSecond, p50, err := floor.Disk(dir)
	if err != nil || perSecond <= 0 || p50 <= 0 {
		t.Fatalf("Disk = %v, %v, %v", perSecond, p50, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
	if _, _, err := floor.Disk(filepath.Join(dir, "nowhere")); err == nil {
		t.Errorf("a directory that is not there is no error")
	}
}

// BenchmarkRun reports the cost of a run of five steps.
func BenchmarkRun(b *testing.B) {
	for _, inFlight := range []int{256, 2048} {
		b.Run(map[int]string{256: "256 in flight", 2048: "2048 in flight"}[inFlight],
			func(b *testing.B) {
				s, err := sqlite.Open(filepath.Join(b.TempDir(), "floor.db"))
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				b.ReportAllocs()
				b.ResetTimer()
				got, err := floor.Run(b.Context(), s, floor.Options{Runs: b.N, InFlight: inFlight})
				if err != nil {
					b.Fatal(err)
				}
				info, err := s.Info(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(got.StepsPerS, "steps/s")
				b.ReportMetric(float64(got.CPU.Microseconds())/float64(got.Steps), "cpu-µs/step")
				b.ReportMetric(float64(info.Bytes)/float64(got.Steps), "disk-B/step")
			})
	}
}
