package faults

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

// An engine whose database is removed ends by itself, also while it is idle: Run returns the
// reason, and nothing is acknowledged any more.
//
// spec: P-2
func TestEngineEndsWhenItsDatabaseIsRemoved(t *testing.T) {
	for _, busy := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "x.db")
		s, err := sqlite.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		eng, err := perdure.New(s, perdure.Options{})
		if err != nil {
			t.Fatal(err)
		}
		wf := perdure.Define("w", func(context.Context, string) (int, error) { return 0, nil })
		if err := eng.Register(wf); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- eng.Run(t.Context()) }()
		if _, err := wf.Start(t.Context(), eng, "complete"); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if busy {
			if _, err := wf.Start(t.Context(), eng, "complete"); err == nil {
				t.Error("a start was acknowledged")
			}
		}
		err = <-done
		var typed *journal.Error
		if !errors.Is(err, store.ErrLost) || !errors.As(err, &typed) || typed.Hint == "" {
			t.Errorf("busy %v: Run gives %v", busy, err)
		}
		if _, err := wf.Start(context.Background(), eng, "complete"); err == nil {
			t.Error("a start was acknowledged after the end")
		}
	}
}
