package sqlite

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/perdure/perdure"
	limits "github.com/perdure/perdure/limit"
	"github.com/perdure/perdure/store"
)

// A slot, a place in line and a token of runs that are not there come back, whoever has written
// them.
//
// spec: R-32
func TestALeakedSlotIsReturned(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	path := filepath.Join(t.TempDir(), "runs.db")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	db := users(t, path)
	for _, statement := range []string{
		`insert into perdure_limits (id, name, key, most, held, asks) values (1, 'job', '', 1, 1, 9)`,
		`insert into perdure_slots (run, number, lim, ask, held, due, priority, share, turn)
			values (42, -3, 1, 1, 1, null, 0, '', 0), (43, -3, 1, 2, 0, null, 0, '', 0)`,
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	job := perdure.Define("job", func(context.Context, int) (int, error) {
		return 1, nil
	}, limits.Control{Concurrency: 1})
	eng, err := perdure.New(s, perdure.Options{
		Build: "test", Logger: slog.New(slog.DiscardHandler),
	})
	if err == nil {
		err = eng.Register(job)
	}
	if err != nil {
		t.Fatal(err)
	}
	live, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- eng.Run(live) }()
	defer func() { end(); <-done }()
	run, err := job.Start(ctx, eng, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Result(ctx); err != nil {
		t.Error("the run does not get the slot:", err)
	}
	if all, err := s.Slots(ctx, store.SlotQuery{}); err != nil || len(all) > 0 {
		t.Errorf("%+v, %v", all, err)
	}
}
