package sqlite

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// BenchmarkPurgeBesideStarts purges large runs while somebody starts others one by one. It reports
// the longest time of a start and the largest size of the log.
func BenchmarkPurgeBesideStarts(b *testing.B) {
	for b.Loop() {
		path := filepath.Join(b.TempDir(), "runs.db")
		s, err := Open(path)
		if err != nil {
			b.Fatal(err)
		}
		p := &purged{B: b, Store: s, path: path}
		p.join()
		for range 100 {
			p.fill(20_000)
		}
		p.besideStarts()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// A purged is a database whose runs are purged.
type purged struct {
	*testing.B
	*Store
	path   string
	engine journal.EngineID
	runs   int64
	log    int64 // the largest size of the log
}

func (p *purged) join() {
	got, err := p.Claim(p.Context(), store.Join{
		Self: store.Engine{Host: "host", PID: os.Getpid(), Slots: 1},
		Now:  time.Now(),
	})
	if err != nil {
		p.Fatal(err)
	}
	p.engine = got.Engine
}

func (p *purged) commit(c store.Change) {
	if err := p.Commit(p.Context(), &store.Group{
		Engine:  p.engine,
		Now:     time.Now(),
		Changes: []store.Change{c},
	}); err != nil {
		p.Error(err)
	}
}

var hundredBytes = json.RawMessage(`"` + strings.Repeat("x", 98) + `"`)

// start starts a run that is kept for that long after its end.
func (p *purged) start(retain journal.Retention) journal.Head {
	p.runs++
	n, err := journal.MakeNumber(p.engine, p.runs)
	if err != nil {
		p.Error(err)
	}
	h := journal.Head{
		Number: n, ID: journal.MakeRunID(p.database, n), WorkflowID: fmt.Sprint("run-", p.runs),
		Workflow: "w",
		Status:   journal.Running, Owner: p.engine, Created: time.Now(), Chain: n, Retain: retain,
	}
	p.commit(store.Change{Run: n, Create: true, Head: &h, Entries: []journal.Entry{
		{
			Run: n, Seq: 1, Kind: journal.RunStarted, Status: journal.Running, At: h.Created,
			Data: hundredBytes,
		},
	}})
	return h
}

// fill writes a run with that many entries, which has ended and may be purged.
func (p *purged) fill(entries int64) {
	h := p.start("0s")
	for seq := int64(2); seq < entries; {
		var slice []journal.Entry
		for ; seq < entries && len(slice) < 2000; seq++ {
			slice = append(slice, journal.Entry{
				Run:  h.Number,
				Seq:  seq,
				Kind: journal.StepCompleted,
				Op:   journal.Op{Name: "step"},
				At:   h.Created,
				Data: hundredBytes,
			})
		}
		p.commit(store.Change{Run: h.Number, Entries: slice})
	}
	h.Status, h.Owner, h.Ended, h.Last = journal.Completed, 0, h.Created, entries
	p.commit(store.Change{Run: h.Number, Head: &h, Entries: []journal.Entry{
		{
			Run: h.Number, Seq: entries, Kind: journal.RunCompleted, Status: journal.Completed,
			At: h.Created, Data: hundredBytes,
		},
	}})
}

// besideStarts purges everything while runs are started.
func (p *purged) besideStarts() {
	var took []time.Duration
	var others sync.WaitGroup
	over := make(chan struct{})
	others.Go(func() {
		for len(took) == 0 || !isClosed(over) {
			began := time.Now()
			p.start("never")
			took = append(took, time.Since(began))
			if info, err := os.Stat(p.path + "-wal"); err == nil {
				p.log = max(p.log, info.Size())
			}
		}
	})
	began, purges := time.Now(), 0
	for more := true; more; purges++ {
		got, err := p.Purge(p.Context(), store.Purge{Engine: p.engine, Now: time.Now()})
		if err != nil {
			p.Error(err)
		}
		more = err == nil && got.More
	}
	p.ReportMetric(time.Since(began).Seconds(), "s/purge")
	close(over)
	others.Wait()
	slices.Sort(took)
	p.ReportMetric(float64(purges), "transactions")
	p.ReportMetric(ms(took[len(took)/2]), "p50-ms/start")
	p.ReportMetric(ms(took[len(took)*99/100]), "p99-ms/start")
	p.ReportMetric(ms(took[len(took)-1]), "max-ms/start")
	p.ReportMetric(float64(p.log>>20), "MB-log")
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
