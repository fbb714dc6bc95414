package waiting

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
)

// While the journals in memory are larger than MaxLoaded, nothing more is claimed.
//
// spec: L-7
func TestRunsAreClaimedWhileTheirJournalsFitInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun atomic.Int64
		note := strings.Repeat("x", 50_000)
		def := perdure.Define("w", func(ctx context.Context, minutes int) (int, error) {
			if _, err := perdure.Step(ctx, "note", func(context.Context) (string, error) {
				return note, nil
			}); err != nil {
				return 0, err
			}
			// they are due one by one
			if err := perdure.Sleep(ctx, time.Duration(minutes)*time.Minute); err != nil {
				return 0, err
			}
			return perdure.Step(ctx, "work", func(context.Context) (int, error) {
				begun.Add(1)
				time.Sleep(time.Hour)
				return minutes, nil
			})
		})
		w := world.With(t, perdure.Options{MaxLoaded: 120_000, IdleTimeout: -1}, def)
		defer func() { w.End() }()
		var runs []*perdure.Run[int]
		for i := range 10 {
			runs = append(runs, world.Must[*perdure.Run[int]](t)(
				def.Start(t.Context(), w.Engine, i+1,
					perdure.ID(fmt.Sprint(i)))))
		}
		time.Sleep(30 * time.Minute)
		if n := begun.Load(); n != 3 {
			t.Errorf("%d runs of 50,000 bytes are in memory, want 3: the one that passes the "+
				"limit is the last", n)
		}
		for i, run := range runs {
			if n := world.Must[int](t)(run.Result(t.Context())); n != i+1 {
				t.Errorf("run %d gives %d", i, n)
			}
		}
	})
}
