package ui_test

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/store/storetest"
)

// BenchmarkPagesWithManyRuns shows pages for some seconds each, with 100,000 runs in the database,
// while 50 runs begin and end in a second. It reports the share of one core that the server and
// the engine need more than without a page. Chromium is another process and does not count.
//
//	go test ./server/ui -run '^$' -bench Many -benchtime 1x -v
func BenchmarkPagesWithManyRuns(b *testing.B) {
	const runs, each, watched = 100_000, 50, 20 * time.Second
	db, err := sqlite.Open(filepath.Join(b.TempDir(), "many.db"))
	if err != nil {
		b.Fatal(err)
	}
	fill(b, db, runs)
	w := beginOn(b, db, "")
	page := browse(w)
	page.open("")
	page.sees("Overview")
	beat(w, each)
	page.open("nowhere")
	share := func() float64 {
		from, begun := used(b), time.Now()
		<-time.After(watched)
		return 100 * (used(b) - from).Seconds() / time.Since(begun).Seconds()
	}
	alone := share()
	b.Run("none", func(b *testing.B) {
		b.ReportMetric(alone, "%core")
	})
	for _, p := range []struct{ name, path, shows string }{
		{"runs", "runs", "new, show"},
		{"failed", "runs?status=FAILED", "declined"},
		{"errors", "runs?group=error", "declined"},
		{"overview", "", "Newest runs"},
		{"workers", "workers", "loaded"},
	} {
		b.Run(p.name, func(b *testing.B) {
			page.open(p.path)
			page.sees(p.shows)
			total := share()
			b.ReportMetric(total, "%core")
			b.ReportMetric(total-alone, "%core-more")
		})
	}
}

// fill makes runs. The three engines that made them are gone.
func fill(b *testing.B, db store.Store, runs int) {
	if _, err := storetest.Fill(b.Context(), db, runs); err != nil {
		b.Fatal(err)
	}
	info, err := db.Info(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	leave := store.Leave{Engine: info.Engines[0].ID, Now: time.Now()}
	for _, c := range []store.Claim{leave, store.ReserveID{}, store.ReserveID{}} {
		if _, err := db.Claim(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}

// beat starts runs at a rate until the end of the benchmark. Each ends at once.
func beat(w *world, each int) {
	done := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second / time.Duration(each))
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-tick.C:
				w.start("long", fmt.Sprint("beat-", n), 3)
			}
		}
	}()
	w.t.Cleanup(func() {
		close(stop)
		<-done
	})
}

// used returns the processor time of this process.
func used(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Skip(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
