package machine_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/patterntest"
	"github.com/perdure/perdure/machine"
	"github.com/perdure/perdure/store/sqlite"
)

// BenchmarkMachineBesideSteps measures a machine beside plain sequential steps, on SQLite.
func BenchmarkMachineBesideSteps(b *testing.B) {
	def := machine.New[int]("machine", "step-0")
	for i := range patterntest.Steps {
		s := machine.Add(def, fmt.Sprint("step-", i), machine.Do(
			func(context.Context, int) (int, error) { return 1, nil }))
		if i+1 < patterntest.Steps {
			s.To(fmt.Sprint("step-", i+1))
		}
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
