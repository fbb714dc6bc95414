//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"

	"github.com/perdure/perdure/internal/enginetest/world"
)

// The variables that make the test binary an engine whose writes fail, or whose
// syncs do.
const (
	unwritableDir = "PERDURE_TEST_UNWRITABLE"
	unsyncableDir = "PERDURE_TEST_UNSYNCABLE"
)

func init() {
	processes[unwritableDir] = workUnwritable
	processes[unsyncableDir] = workUnsyncable
}

// A witness runs an engine on a store that fails, and checks that everything the engine reports is
// durable by then.
type witness struct {
	eng    *perdure.Engine
	wf     *perdure.Workflow[int, int]
	ctx    context.Context
	cancel context.CancelFunc
	ran    chan error
	loops  sync.WaitGroup

	mu        sync.Mutex
	news      *sync.Cond // something below has changed
	enough    bool
	calls     map[string]int // of bodies of steps, by idempotency key
	started   []string       // starts that were acknowledged
	ended     int            // results that were returned
	failed    int            // the last retry that failed, of those in a row
	recovered int
	wrong     []error
}

// inOrder is the number of steps that the workflow does in order; one more runs beside them.
const inOrder = 4

// witnessOf returns the witness of a new engine whose steps have results of that many bytes.
func witnessOf(s store.Store, size int) (*witness, error) {
	w := &witness{calls: map[string]int{}, ran: make(chan error, 1)}
	w.news = sync.NewCond(&w.mu)
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.wf = perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		before, what := journal.RunStarted, ""
		body := func(ctx context.Context) ([]byte, error) {
			key := perdure.IdempotencyKey(ctx)
			w.note(func() { w.calls[key]++ })
			run, _, _ := strings.Cut(key, "/")
			w.hear(run, before, what)
			return make([]byte, size), nil
		}
		for i := range inOrder {
			name := fmt.Sprint("s", i)
			if _, err := perdure.Step(ctx, name, body); err != nil {
				return 0, err
			}
			before, what = journal.StepCompleted, name
		}
		before, what = journal.StepStarted, "beside"
		out, err := perdure.Async(ctx, what, body).Await(ctx)
		return len(out), err
	})
	eng, err := perdure.New(s, perdure.Options{
		Build:     "test",
		Observers: []observe.Observer{{See: w.observe}},
	})
	if err == nil {
		err = eng.Register(w.wf)
	}
	if err != nil {
		return nil, err
	}
	w.eng = eng
	go func() { w.ran <- eng.Run(w.ctx) }()
	return w, nil
}

// note changes the record of the witness.
func (w *witness) note(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	w.news.Broadcast()
}

// await waits until the witness has seen something, or an error.
func (w *witness) await(seen func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !seen() && len(w.wrong) == 0 {
		w.news.Wait()
	}
}

// blame records an error, after which nobody waits any more; nil is ignored.
func (w *witness) blame(err error) {
	if err != nil {
		w.note(func() { w.wrong = append(w.wrong, err) })
		w.cancel()
	}
}

// hear checks that an entry is durable that somebody was told of.
func (w *witness) hear(run string, kind journal.Kind, step string) {
	entries, err := w.eng.History(context.Background(), run, 0, 0)
	there := slices.ContainsFunc(entries, func(e journal.Entry) bool {
		return e.Kind == kind && e.Op.Name == step
	})
	if !there {
		w.blame(errors.Join(fmt.Errorf("run %s: %v %s was told and is not durable: %v", run, kind,
			step,
			world.Tail(entries, 9)), err))
	}
}

func (w *witness) observe(n observe.Notice) {
	switch n.Kind {
	case observe.StoreFailed:
		w.note(func() { w.failed = n.Attempt })
	case observe.StoreRecovered:
		w.note(func() { w.failed, w.recovered = 0, w.recovered+1 })
	case observe.RunStarted:
		w.hear(n.Run, journal.RunStarted, "")
	case observe.StepStarted:
		w.hear(n.Run, journal.RunStarted, "")
	case observe.StepSucceeded:
		w.hear(n.Run, journal.StepCompleted, n.Step)
	case observe.RunEnded:
		w.hear(n.Run, journal.RunCompleted, "")
	case observe.StepFailed, observe.StepRetrying, observe.RunRetrying, observe.RunParked:
		w.blame(fmt.Errorf("run %s: %s %s: %s", n.Run, n.Kind, n.Step, n.Err))
	}
}

// load starts run after run, and waits for each, until it is enough or something
// is wrong.
func (w *witness) load() {
	for range 8 {
		w.loops.Go(func() {
			var err error
			for err == nil && !w.isEnough() {
				err = w.one()
			}
			w.blame(err)
		})
	}
}

func (w *witness) isEnough() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.enough
}

func (w *witness) one() error {
	run, err := w.wf.Start(w.ctx, w.eng, 0)
	if err != nil {
		return err
	}
	id := run.RunID()
	w.hear(id, journal.RunStarted, "")
	w.note(func() { w.started = append(w.started, id) })
	if _, err := run.Result(w.ctx); err != nil {
		return err
	}
	w.hear(id, journal.RunCompleted, "")
	w.note(func() { w.ended++ })
	return nil
}

// more waits for further runs to end.
func (w *witness) more(runs int) {
	before := -1
	w.await(func() bool {
		if before < 0 {
			before = w.ended
		}
		return w.ended >= before+runs
	})
}

// finish lets what is in flight end and stops the engine in good order.
func (w *witness) finish() {
	w.note(func() { w.enough = true })
	w.loops.Wait()
	w.cancel()
	w.blame(<-w.ran)
}

// verdict returns the errors, and how often each step was executed.
func (w *witness) verdict() (wrong []error, calls map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.wrong), maps.Clone(w.calls)
}

// judge checks in a database that the acknowledged starts have ended as they should.
func judge(path string, started []string) error {
	s, err := sqlite.OpenWith(path, sqlite.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer s.Close()
	eng, err := perdure.New(s, perdure.Options{Build: "reader"})
	if err != nil {
		return err
	}
	var wrong []error
	for _, id := range started {
		d, err := eng.Describe(context.Background(), id)
		if err != nil {
			return err
		}
		entries, err := eng.History(context.Background(), id, 0, 0)
		if err != nil {
			return err
		}
		bad := world.Audit(d, entries)
		if n := len(d.State.Steps); d.Head.Status != journal.Completed || n != inOrder+1 {
			bad = append(bad, fmt.Sprintf("it is %v after %d steps", d.Head.Status, n))
		}
		if len(bad) > 0 {
			wrong = append(wrong, fmt.Errorf("run %s: %q", id, bad))
		}
	}
	return errors.Join(wrong...)
}

// workThrough runs an engine on the database in dir while something goes wrong, and returns the
// errors at the end. No process died, so no step may have been executed twice.
func workThrough(dir string, size int, trouble func(path string, w *witness) error) error {
	debug.SetTraceback("all")
	hung := time.AfterFunc(2*time.Minute, func() { panic("the engine hangs") })
	defer hung.Stop()
	path := filepath.Join(dir, "runs.db")
	s, err := sqlite.Open(path)
	if err != nil {
		return err
	}
	w, err := witnessOf(s, size)
	if err != nil {
		return err
	}
	w.load()
	if err := trouble(path, w); err != nil {
		return err
	}
	w.finish()
	s.Close() // it fails if the last sync does; the log exists then
	wrong, calls := w.verdict()
	if len(wrong) > 0 {
		return errors.Join(wrong...)
	}
	for key, n := range calls {
		if n != 1 {
			return fmt.Errorf("step %s was executed %d times", key, n)
		}
	}
	fmt.Printf("%d runs, the store recovered %d times\n", len(w.started), w.recovered)
	return judge(path, w.started)
}

// workUnwritable makes writes fail once the log has grown by that many bytes, which is at once, or
// in the middle of a transaction.
func workUnwritable(dir string) error {
	signal.Ignore(syscall.SIGXFSZ)
	return workThrough(dir, 20<<10, func(path string, w *witness) error {
		for _, room := range []int64{0, 100, 20_000, 100_000} {
			w.more(10)
			log, err := os.Stat(path + "-wal")
			if err == nil {
				err = limitFiles(uint64(log.Size() + room))
			}
			if err != nil {
				return err
			}
			recovered := 0
			w.await(func() bool { recovered = w.recovered; return w.failed >= 4 })
			if err := limitFiles(math.MaxUint64); err != nil {
				return err
			}
			w.await(func() bool { return w.recovered > recovered })
		}
		w.more(10)
		return nil
	})
}

// limitFiles limits the size of the files that this process may write.
func limitFiles(size uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	limit.Cur = min(size, limit.Max)
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)
}

// workUnsyncable works while another process makes syncs fail.
func workUnsyncable(dir string) error {
	return workThrough(dir, 100, func(_ string, w *witness) error {
		w.await(func() bool { return w.recovered > 0 })
		w.more(100)
		return nil
	})
}

// runProcess runs the test binary as one of its processes, below another command.
func runProcess(t *testing.T, variable string, command ...string) {
	t.Helper()
	dir := t.TempDir()
	s, err := sqlite.Open(filepath.Join(dir, "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	command = append(command, os.Args[0])
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), variable+"="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", command, err, out)
	}
	t.Logf("%s", out)
}

// A process may write no further for a while, four times, at other places of a
// transaction. Runs wait, and then all of them end.
func TestWritesFail(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes that fill databases")
	}
	runProcess(t, unwritableDir)
}

// The disk does not take what was written. The state of a commit is unknown then, and nobody is
// told before it is known.
func TestSyncsFail(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not there, which has syncs fail:", err)
	}
	// Which syncs of each thread; the first three are of the engine's joining.
	syncs := []string{"5+3", "4", "7", "20"}
	if testing.Short() {
		syncs = syncs[:1]
	}
	for _, when := range syncs {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			command := []string{strace, "-f", "-o", filepath.Join(t.TempDir(), "calls"), "-e",
				"trace=fsync,fdatasync",
				"-e", "inject=fsync:error=EIO:when=" + when, "-e",
				"inject=fdatasync:error=EIO:when=" + when}
			if out, err := exec.Command(strace, append(command[1:], "true")...).
				CombinedOutput(); err != nil {
				t.Skipf("strace may not do it here: %v: %s", err, out)
			}
			runProcess(t, unsyncableDir, command...)
		})
	}
}

// The database is full. An engine that was stopped then has lost nothing when
// another one goes on with more room.
func TestDiskIsFull(t *testing.T) {
	if testing.Short() {
		t.Skip("it fills a database")
	}
	path := filepath.Join(t.TempDir(), "runs.db")
	s, err := sqlite.OpenWith(path, sqlite.Options{MaxBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	first, err := witnessOf(s, 100<<10) // in rows of their own
	if err != nil {
		t.Fatal(err)
	}
	first.load()
	first.await(func() bool { return first.failed >= 4 })
	s.Close()
	first.loops.Wait()
	first.blame(<-first.ran)
	wrong, before := first.verdict()
	for _, err := range wrong {
		// the engine stopped, or the caller's context ended first
		if journal.CodeOf(err) != journal.CodeStopped && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}

	if s, err = sqlite.Open(path); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	runs, done := recorded(t, s)
	second, err := witnessOf(s, 100<<10)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range runs {
		run, err := second.wf.Get(t.Context(), second.eng, id)
		if err == nil {
			_, err = run.Result(t.Context())
		}
		if err != nil {
			t.Errorf("run %s: %v", id, err)
		}
	}
	second.finish()
	wrong, after := second.verdict()
	if err := errors.Join(append(wrong, judge(path, first.started))...); err != nil {
		t.Error(err)
	}
	for _, step := range done {
		if before[step] != 1 || after[step] != 0 {
			t.Errorf("step %s was executed %d times, and %d times after its result was recorded",
				step, before[step], after[step])
		}
	}
	t.Logf("%d acknowledged starts of %d, %d results", len(first.started), len(runs), len(done))
}

// recorded returns the runs of a store and the idempotency keys of the steps that have a result.
func recorded(t *testing.T, s store.Store) (runs, done []string) {
	t.Helper()
	heads, _, err := s.Find(t.Context(), store.Filter{Limit: store.MaxLimit})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range heads {
		runs = append(runs, string(h.ID))
		entries, err := s.Load(t.Context(), h.Number, store.Range{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Kind == journal.StepCompleted {
				done = append(done, string(h.ID)+"/"+e.Op.String())
			}
		}
	}
	return runs, done
}
