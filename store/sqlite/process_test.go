package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// holdEnv makes the test binary an engine that holds the named database until it is killed.
const holdEnv = "PERDURE_TEST_HOLD"

func TestMain(m *testing.M) {
	if path := os.Getenv(holdEnv); path != "" {
		if err := hold(path); err != nil {
			fmt.Println(err)
		}
		os.Exit(1)
	}
	if path := os.Getenv(postEnv); path != "" {
		if err := strange(path); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// hold joins, starts a run, reports that and waits for the end of its input, which never comes.
func hold(path string) error {
	s, err := Open(path)
	if err != nil {
		return err
	}
	got, err := join(s)
	if err != nil {
		return err
	}
	if err := s.Commit(context.Background(), start(s, got.Engine, 1)); err != nil {
		return err
	}
	if _, err := s.Claim(context.Background(), store.Renew{
		Engine: got.Engine, Now: noon,
		Drain: store.Drain{Until: noon.Add(time.Minute), Runs: 7, Steps: 5},
		Loops: []store.Loop{{Name: "claims", Age: time.Second}},
	}); err != nil {
		return err
	}
	fmt.Println("joined")
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	return err
}

func TestAnotherProcessHasIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	child, dead := engineProcess(t, path)
	s := mustOpen(t, path)
	_, err := join(s)
	if !errors.Is(err, store.ErrLocked) ||
		!strings.Contains(err.Error(), fmt.Sprintf("process %d on", child.Process.Pid)) {
		t.Fatalf("join = %v, want ErrLocked that names process %d", err, child.Process.Pid)
	}

	// It can still read and start runs.
	info, err := s.Info(t.Context())
	if err != nil || len(info.Engines) != 1 || info.Engines[0].Drain.Runs != 7 ||
		info.Engines[0].Drain.Steps != 5 || !info.Engines[0].Seen.Equal(noon) ||
		len(info.Engines[0].Loops) != 1 || info.Engines[0].Loops[0].Age != time.Second {
		t.Errorf("Info = %+v, %v", info, err)
	}
	if err := s.Commit(t.Context(), start(s, 0, 77)); err != nil {
		t.Fatal(err)
	}
	heads, _, err := s.Find(t.Context(), store.Filter{})
	if err != nil || len(heads) != 2 {
		t.Fatalf("Find = %v, %v", heads, err)
	}

	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-dead
	got, err := join(s)
	if err != nil {
		t.Fatalf("join after the other's death: %v", err)
	}
	claimed, err := s.Claim(t.Context(), store.TakeDue{
		Engine:    got.Engine,
		Workflows: []string{"w"},
		Max:       5,
		Now:       noon,
	})
	if err != nil || len(claimed.Runs) != 2 || len(claimed.Runs[0].Entries) != 1 {
		t.Fatalf("Claim = %+v, %v", claimed, err)
	}
	if crashes := claimed.Runs[0].Head.Crashes + claimed.Runs[1].Head.Crashes; crashes != 1 {
		t.Errorf("%d crashes are counted", crashes)
	}
}

func TestTwoHandlesInOneProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	a, b := mustOpen(t, path), mustOpen(t, path)
	if _, err := join(a); err != nil {
		t.Fatal(err)
	}
	if _, err := join(b); !errors.Is(err, store.ErrLocked) {
		t.Fatalf("the second join = %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := join(b); err != nil {
		t.Fatalf("after the first was closed: %v", err)
	}
}

// engineProcess starts another process that has joined. The channel is closed when that process has
// died.
func engineProcess(t *testing.T, path string) (*exec.Cmd, chan struct{}) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), holdEnv+"="+path)
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	dead := make(chan struct{})
	line, err := bufio.NewReader(out).ReadString('\n')
	go func() {
		defer close(dead)
		if err := child.Wait(); err == nil {
			t.Errorf("the other process ended by itself")
		}
	}()
	t.Cleanup(func() { in.Close(); <-dead })
	if err != nil || line != "joined\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	return child, dead
}

// noon is the time at which these tests take place.
var noon = time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)

func mustOpen(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func join(s *Store) (store.Claimed, error) {
	return s.Claim(context.Background(), store.Join{
		Self: store.Engine{Host: "here", PID: os.Getpid(), Build: "b", Since: noon},
		Now:  noon,
	})
}

// start returns a group with a new run of workflow "w". The engine owns the run; without an engine
// the run is due.
func start(s *Store, engine journal.EngineID, count int64) *store.Group {
	n, err := journal.MakeNumber(max(engine, 1), count)
	if err != nil {
		panic(err)
	}
	id := journal.MakeRunID(s.database, n)
	return &store.Group{Engine: engine, Now: noon, Changes: []store.Change{{
		Run: n, Create: true,
		Head: &journal.Head{
			Number: n, ID: id, WorkflowID: string(id), Workflow: "w", Status: journal.Running,
			Owner: engine, Wake: noon, Created: noon,
		},
		Entries: []journal.Entry{
			{
				Run: n, Seq: 1, Kind: journal.RunStarted, Status: journal.Running, At: noon,
				Data: []byte(`{"order":1}`),
			},
		},
	}}}
}

// step returns a group with the next result of a run.
func step(engine journal.EngineID, run journal.Number, seq int64, data []byte) *store.Group {
	return &store.Group{Engine: engine, Now: noon,
		Changes: []store.Change{{Run: run, Entries: []journal.Entry{{
			Run: run, Seq: seq, Kind: journal.StepCompleted, Op: journal.Op{
				Name: "charge", Occ: int(seq - 1),
			}, At: noon, Took: 1500000, Data: data,
		}}}}}
}
