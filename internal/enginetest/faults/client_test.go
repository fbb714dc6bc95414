package faults

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/sqlite"
)

// clientDir makes the test binary a process that carries out clientOrders on the database in that
// directory.
const (
	clientDir    = "PERDURE_TEST_CLIENT"
	clientOrders = "PERDURE_TEST_ORDERS"
)

var settle = perdure.NewSignal[int]("paid")

func init() { processes[clientDir] = orderFromOutside }

// orderFromOutside carries out orders as a client of its own.
func orderFromOutside(dir string) error {
	ctx := context.Background()
	s, err := sqlite.Open(filepath.Join(dir, "runs.db"))
	if err != nil {
		return err
	}
	defer s.Close()
	c, err := perdure.NewClient(ctx, s)
	if err != nil {
		return err
	}
	for order := range strings.SplitSeq(os.Getenv(clientOrders), ",") {
		verb, id, _ := strings.Cut(order, " ")
		switch verb {
		case "start":
			_, err = c.Start(ctx, "w", []byte("0"), perdure.ID(id))
		case "signal":
			_, err = settle.Send(ctx, c, id, 7)
		case "suspend":
			err = c.Suspend(ctx, id, "outside")
		case "resume":
			err = c.Resume(ctx, id)
		case "cancel":
			err = c.Cancel(ctx, id, "outside")
		case "decide":
			err = c.Decide(ctx, id, "p", perdure.Decision{Choice: "yes"})
		}
		if err != nil {
			return fmt.Errorf("%s: %w", order, err)
		}
	}
	return nil
}

// spec: R-17
func TestAnotherProcessStartsAndSendsAndCommands(t *testing.T) {
	dir := t.TempDir()
	outside := func(orders ...string) {
		t.Helper()
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), clientDir+"="+dir, clientOrders+"="+
			strings.Join(orders, ","))
		if out, err := child.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", orders, err, out)
		}
	}
	wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		v, err := settle.Wait(ctx)
		if err != nil {
			return 0, err
		}
		_, err = perdure.Park(ctx, "p", "why")
		return v, err
	})
	s, err := sqlite.Open(filepath.Join(dir, "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()

	// While no engine runs.
	outside("start a", "signal a", "start b", "cancel b", "start c", "suspend c", "signal c")
	eng, err := perdure.New(s, perdure.Options{IdleTimeout: -1})
	if err == nil {
		err = eng.Register(wf)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- eng.Run(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	until := func(id string, want journal.Status) {
		t.Helper()
		var last journal.Head
		for range 2000 {
			if d, err := eng.Describe(ctx, id); err == nil {
				if last = d.Head; last.Status == want {
					return
				}
			}
			<-time.After(5 * time.Millisecond)
		}
		t.Fatalf("run %s is %v (%s), want %v", id, last.Status, last.Cause, want)
	}
	asks := func(id string) {
		t.Helper()
		for range 2000 {
			d, err := eng.Describe(ctx, id)
			if err == nil && slices.ContainsFunc(d.State.Waits, func(w journal.Wait) bool {
				return w.Kind == journal.WaitDecision
			}) {
				return
			}
			<-time.After(5 * time.Millisecond)
		}
		t.Fatalf("run %s asks for no decision", id)
	}
	asks("a")
	outside("decide a")
	until("a", journal.Completed)
	until("b", journal.Cancelled)
	until("c", journal.Suspended)

	// While one does.
	outside("resume c", "start d", "start e", "start f", "signal f")
	until("d", journal.Waiting)
	until("e", journal.Waiting)
	asks("f")
	asks("c")
	outside("decide c", "suspend d", "cancel e", "decide f")
	until("c", journal.Completed)
	until("d", journal.Suspended)
	until("e", journal.Cancelled)
	until("f", journal.Completed)
	outside("resume d", "signal d")
	asks("d")
	outside("decide d")
	until("d", journal.Completed)
}
