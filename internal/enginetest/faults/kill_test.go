package faults

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"

	"github.com/perdure/perdure/internal/enginetest/world"
)

// workerDir names the directory of a worker process; the test binary is one if it is set.
const workerDir = "PERDURE_TEST_WORKER"

// processes are the other roles of the test binary, by the variable that names their directory.
var processes = map[string]func(dir string) error{
	workerDir: workUntilKilled, listenerDir: listenUntilKilled,
}

func TestMain(m *testing.M) {
	for variable, process := range processes {
		dir := os.Getenv(variable)
		if dir == "" {
			continue
		}
		if err := process(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const items = 4

// booking is the workflow of the workers: branches ask for prices and collect the results in a
// slice that they share, the first of two quotes wins, and each item is booked once.
func booking(call func(context.Context, string) error) *perdure.Workflow[int, int] {
	effect := func(what string) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) { return what, call(ctx, what) }
	}
	return perdure.Define("booking", func(ctx context.Context, _ int) (int, error) {
		var found []string
		var asked []*perdure.Future[string]
		for i := range items {
			asked = append(
				asked, perdure.Go(ctx, "price", func(ctx context.Context) (string, error) {
					item, err := perdure.Step(ctx, "ask", effect(fmt.Sprint("item", i)))
					found = append(found, item)
					return item, err
				}))
		}
		quotes := []*perdure.Future[string]{
			perdure.Async(ctx, "quote", effect("a")), perdure.Async(ctx, "quote", effect("b")),
		}
		won, err := perdure.Any(ctx, nil, quotes...)
		if err != nil {
			return 0, err
		}
		if _, err := quotes[1-won].Cancel(ctx, "lost"); err != nil {
			return 0, err
		}
		if all, err := perdure.All(ctx, nil, asked...); !all || err != nil {
			return 0, errors.Join(err, errors.New("a price is missing"))
		}
		for _, item := range found {
			if _, err := perdure.Step(ctx, "book", effect("book "+item)); err != nil {
				return 0, err
			}
		}
		return len(found), nil
	}, perdure.Retry{Attempts: 100, First: time.Millisecond})
}

// workUntilKilled executes runs on the database in dir: existing ones, and new ones until it is
// told to stop. It prints which starts are durable, and at the end that all runs have ended.
func workUntilKilled(dir string) error {
	ledger, err := os.OpenFile(filepath.Join(dir, "ledger"), os.O_APPEND|os.O_CREATE|os.O_WRONLY,
		0o600)
	if err != nil {
		return err
	}
	s, err := sqlite.Open(filepath.Join(dir, "runs.db"))
	if err != nil {
		return err
	}
	eng, err := perdure.New(s, perdure.Options{})
	if err != nil {
		return err
	}
	wf := booking(func(ctx context.Context, what string) error {
		line := fmt.Sprintf("\n%d\t%s\t%s\t.", time.Now().UnixNano(),
			perdure.IdempotencyKey(ctx), what)
		if _, err := ledger.WriteString(line); err != nil {
			return err
		}
		_, err := world.Work(what, time.Duration(rand.IntN(int(2*time.Millisecond))), nil)(ctx)
		return err
	})
	if err := eng.Register(wf); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ran := make(chan error, 1)
	go func() { ran <- eng.Run(ctx) }()
	_, err = os.Stat(filepath.Join(dir, "enough"))
	if enough := err == nil; enough {
		return finish(ctx, s, eng, wf)
	}
	for n := 0; ; n++ {
		run, err := wf.Start(ctx, eng, n, perdure.ID(fmt.Sprintf("%d-%d", os.Getpid(), n)))
		if err != nil {
			return err
		}
		fmt.Println(run.RunID())
		if n%4 == 0 {
			if _, err := run.Result(ctx); err != nil {
				return err
			}
		}
	}
}

// finish waits for every run to end.
func finish(ctx context.Context, s store.Store, eng *perdure.Engine,
	wf *perdure.Workflow[int, int]) error {
	for after := (journal.Cursor{}); ; {
		heads, next, err := s.Find(ctx, store.Filter{After: after, Limit: store.MaxLimit})
		if err != nil {
			return err
		}
		for _, h := range heads {
			run, err := wf.Get(ctx, eng, string(h.ID))
			if err != nil {
				return err
			}
			if n, err := run.Result(ctx); n != items || err != nil {
				return fmt.Errorf("run %s: %d, %w", h.ID, n, err)
			}
		}
		if after = next; next.IsZero() {
			fmt.Println("finished")
			return nil
		}
	}
}

// killedWorker starts a worker and kills it a while after its first start is durable. It returns
// the starts that the worker reported as durable.
func killedWorker(t *testing.T, dir string, after time.Duration) []string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		said = append(said, lines.Text())
		if len(said) == 1 && after > 0 {
			time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		}
	}
	err = cmd.Wait()
	if after > 0 && (err == nil || cmd.ProcessState.Exited()) {
		t.Fatalf("the worker ended by itself: %v", err)
	}
	if after == 0 && err != nil {
		t.Fatalf("the last worker: %v", err)
	}
	return said
}

// A call is a line of the ledger. It ends with a point.
type call struct {
	at   time.Time
	what string
}

// readLedger returns the calls by their keys. A kill in the middle of a write leaves a line without
// its end: that call was not made.
func readLedger(t *testing.T, dir string, kills int) map[string][]call {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	calls, torn := map[string][]call{}, 0
	for _, line := range strings.Split(string(data), "\n")[1:] {
		if !strings.HasSuffix(line, "\t.") {
			torn++
			continue
		}
		f := strings.Split(line, "\t")
		at, err := strconv.ParseInt(f[0], 10, 64)
		if len(f) != 4 || err != nil {
			t.Fatalf("ledger: %q", line)
		}
		calls[f[1]] = append(calls[f[1]], call{time.Unix(0, at), f[2]})
	}
	if torn > kills {
		t.Fatalf("%d kills left %d lines of the ledger without an end", kills, torn)
	}
	return calls
}

func TestALineOfTheLedgerThatAKillHasCutIsNoCall(t *testing.T) {
	dir := t.TempDir()
	data := "\n5\tk\ta\t.\n6\tk\ta ca\n7\tk\ta\t.\n8"
	if err := os.WriteFile(filepath.Join(dir, "ledger"), []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	got := readLedger(t, dir, 2)
	want := map[string][]call{"k": {{time.Unix(0, 5), "a"}, {time.Unix(0, 7), "a"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A worker is killed 300 times at any moment, while it has runs with branches, a shared slice and a
// race in flight. An independent ledger of calls shows the result: every acknowledged start has
// ended, every item was booked under one key, and nothing was called again after its result was
// recorded.
//
// spec: L-15, R-15
func TestThreeHundredKills(t *testing.T) {
	kills := 300
	if testing.Short() {
		kills = 10
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	var acknowledged []string
	for range kills {
		acknowledged = append(acknowledged,
			killedWorker(t, dir, time.Duration(rng.IntN(int(40*time.Millisecond)))+1)...)
	}
	if err := os.WriteFile(filepath.Join(dir, "enough"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if said := killedWorker(t, dir, 0); len(said) != 1 || said[0] != "finished" {
		t.Fatalf("the last worker said %q", said)
	}
	calls := readLedger(t, dir, kills)
	repeated := 0
	for key, cs := range calls {
		for _, c := range cs[1:] {
			repeated++
			if c.what != cs[0].what {
				t.Errorf("key %s was used for %q and %q", key, cs[0].what, c.what)
			}
		}
	}
	judgeRuns(t, dir, acknowledged, calls)
	t.Logf("%d kills, %d acknowledged starts, %d keys, %d repeated calls", kills, len(acknowledged),
		len(calls), repeated)
	if repeated < kills/10 {
		t.Errorf("only %d calls were repeated: the kills prove little", repeated)
	}
}

// judgeRuns compares journals with the calls that the outside world got.
func judgeRuns(t *testing.T, dir string, acknowledged []string, calls map[string][]call) {
	t.Helper()
	s, err := sqlite.Open(filepath.Join(dir, "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	eng, err := perdure.New(s, perdure.Options{Build: "reader"})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	for _, id := range acknowledged {
		d, err := eng.Describe(ctx, id)
		if err != nil || d.Head.Status != journal.Completed {
			t.Errorf("run %s: %v, %v", id, d.Head.Status, err)
			continue
		}
		entries, err := eng.History(ctx, id, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range world.Audit(d, entries) {
			t.Errorf("run %s: %s", id, bad)
		}
		booked := map[string]int{}
		for _, step := range d.State.Steps {
			cs := calls[id+"/"+step.Path]
			if step.Status == journal.StepIsDone && step.Opens == 0 && len(cs) == 0 {
				t.Errorf("run %s: step %s is done, and nobody was called", id, step.Path)
			}
			for _, c := range cs {
				if c.at.After(step.Ended) && step.Status == journal.StepIsDone {
					t.Errorf("run %s: step %s was called again after its result was recorded", id,
						step.Path)
				}
			}
			if step.Op.Name == "book" {
				booked[cs[len(cs)-1].what]++
			}
		}
		if len(booked) != items {
			t.Errorf("run %s booked %v", id, booked)
		}
	}
}
