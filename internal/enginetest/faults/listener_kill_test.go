package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/sqlite"
)

// listenerDir names the directory of a process whose listener kills it.
const listenerDir = "PERDURE_TEST_LISTENER"

// listened is the number of runs of such a process.
const listened = 6

// listenUntilKilled executes runs, one after the other, whose listener records their ends. For each
// run it kills its process once: not at all, before it has recorded the end, or afterwards.
func listenUntilKilled(dir string) error {
	s, err := sqlite.Open(filepath.Join(dir, "runs.db"))
	if err != nil {
		return err
	}
	eng, err := perdure.New(s, perdure.Options{})
	if err != nil {
		return err
	}
	die := func(n, when int) error {
		if n%3 != when {
			return nil
		}
		mark, err := os.OpenFile(filepath.Join(dir, fmt.Sprint("killed-", n)), os.O_CREATE|
			os.O_EXCL, 0o600)
		if err != nil { // the listener had failed before
			return nil
		}
		_ = mark.Close()
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		if err == nil {
			select {} // until the process is dead
		}
		return err
	}
	heard := make(chan int, listened)
	wf := perdure.Define("w", func(_ context.Context, n int) (int, error) { return n, nil },
		perdure.Listener{Call: func(_ context.Context, e perdure.Ended) error {
			var n int
			if _, err := fmt.Sscan(e.WorkflowID, &n); err != nil {
				return err
			}
			if err := die(n, 1); err != nil {
				return err
			}
			if err := appendLine(filepath.Join(dir, "heard"), e.WorkflowID+" "+
				e.Status.String()); err != nil {
				return err
			}
			if err := die(n, 2); err != nil {
				return err
			}
			heard <- n
			return nil
		}})
	if err := eng.Register(wf); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ran := make(chan error, 1)
	go func() { ran <- eng.Run(ctx) }()
	for n := range listened {
		run, err := wf.Start(ctx, eng, n, perdure.ID(fmt.Sprint(n)))
		if err != nil {
			return err
		}
		if _, err := run.Result(ctx); err != nil {
			return err
		}
		if done, _ := os.ReadFile(filepath.Join(dir, "done")); strings.Contains(string(done),
			fmt.Sprint(n)) {
			continue
		}
		for got := range heard {
			if err := appendLine(filepath.Join(dir, "done"), fmt.Sprint(got)); err != nil {
				return err
			}
			if got == n {
				break
			}
		}
		for left := true; left; { // the delivery is durable before the process may die again
			info, err := s.Info(ctx)
			if err != nil {
				return err
			}
			left = info.Outbox > 0
		}
	}
	stop()
	return <-ran
}

func appendLine(file, line string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

// A process dies in a listener, before or after the listener has done its work. The next process
// reports that end again, and no other.
//
// spec: L-18
func TestAListenerThatKillsItsProcessHearsOfThatRunAgain(t *testing.T) {
	dir := t.TempDir()
	kills := 0
	for range 2 * listened {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), listenerDir+"="+dir)
		out, err := cmd.CombinedOutput()
		if err == nil {
			break
		}
		if cmd.ProcessState.Exited() {
			t.Fatalf("the process ended by itself: %v: %s", err, out)
		}
		kills++
	}
	data, err := os.ReadFile(filepath.Join(dir, "heard"))
	if err != nil {
		t.Fatal(err)
	}
	times := map[string]int{}
	for line := range strings.Lines(string(data)) {
		times[strings.TrimSuffix(line, "\n")]++
	}
	for n := range listened {
		want := 1
		if n%3 == 2 {
			want = 2
		}
		if got := times[fmt.Sprint(n, " COMPLETED")]; got != want {
			t.Errorf("heard of run %d %d times, want %d", n, got, want)
		}
	}
	if kills != listened/3*2 {
		t.Errorf("%d processes were killed", kills)
	}
}
