package saga_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/patterntest"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/store/sqlite"
)

// BenchmarkSagaBesideSteps measures a saga whose steps have compensations beside plain sequential
// steps, on SQLite.
func BenchmarkSagaBesideSteps(b *testing.B) {
	def := saga.New[int]("saga")
	var before []saga.Dependency
	for i := range patterntest.Steps {
		before = []saga.Dependency{saga.Add(def, fmt.Sprint("step-", i), nothing).After(before...).
			Undo(func(context.Context, int, int) error { return nil })}
	}
	db, err := sqlite.Open(filepath.Join(b.TempDir(), "bench.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	eng, err := perdure.New(db, perdure.Options{})
	if err != nil {
		b.Fatal(err)
	}
	patterntest.BesideSteps(b, eng, def, def.Workflow)
}
