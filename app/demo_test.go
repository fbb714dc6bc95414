package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/app/internal/demo"
	"github.com/perdure/perdure/batch"
	"github.com/perdure/perdure/internal/place"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/sqlite"
)

// spec: L-17
func TestDemo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "demo")
	for _, args := range [][]string{
		{"--kills", "2", "--seed", "1"},
		{"--kills", "0", "--seed", "1"},
		{"--kills", "5", "--seed", "3", "--orders", "2"}, // several kills in one order
		{"--kills", "9", "--seed", "3"},                  // short report
	} {
		r := perdureCommand(t, append([]string{"demo", "--once", "--dir", dir}, args...)...)
		if r.code != exitOK || r.stderr != "" {
			t.Fatalf("%v: exit code %d: %s\n%s", args, r.code, r.stderr, r.stdout)
		}
		lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
		next := lines[len(lines)-2]
		if len(lines) > 25 || !strings.HasPrefix(next, "next    ") ||
			strings.Contains(r.stdout, "✗ (") {
			t.Errorf("%v: %d lines:\n%s", args, len(lines), r.stdout)
		}
		for words, want := range map[string]bool{
			"while nothing runs: perdure runs get ":     args[1] != "0",
			"▶ exp-9     expense-approval  ask ✓":       true,
			"▶ sub-5     subscription      charge 3× ✓": true,
			"  WAITING until ":                          true,
			`runs signal exp-9 answer -i '{"by":"manager","approved":true}' --store ` +
				filepath.Join(dir, "perdure.db"): true,
		} {
			if strings.Contains(r.stdout, words) != want {
				t.Errorf("%v: that it says %q is not %t:\n%s", args, words, want, r.stdout)
			}
		}
		leftOrderly(t, dir, journal.Waiting)
		repeats := countRepeats(t, dir)
		if args[1] != "0" && repeats == 0 {
			t.Errorf("%v: no call was repeated", args)
		}
		if args[1] == "0" && repeats > 0 {
			t.Errorf("%v: %d calls were repeated", args, repeats)
		}
	}
}

// ledger returns the calls of a demo.
func ledger(t *testing.T, dir string) []demo.Call {
	t.Helper()
	calls, err := demo.ReadLedger(filepath.Join(dir, "ledger.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return calls
}

func countRepeats(t *testing.T, dir string) int {
	t.Helper()
	calls := ledger(t, dir)
	keys := map[string]bool{}
	for _, c := range calls {
		keys[c.Key] = true
	}
	return len(calls) - len(keys)
}

func TestDemoRefusesDirectories(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	foreign := filepath.Join(dir, "foreign")
	write(t, file)
	if err := os.Mkdir(foreign, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(foreign, "perdure.db"))
	for _, c := range []struct {
		dir     string
		code    int
		message string
	}{
		{file, exitUsage, "it is a file"},
		{filepath.Join(file, "below"), exitUnreachable, "the directory cannot be made"},
		{foreign, exitConflict, "perdure.db is there, and no demo made it"},
	} {
		perdureCommand(t, "demo", "--once", "--dir", c.dir).refused(t, c.code, c.message)
	}
	if _, err := os.Stat(filepath.Join(foreign, "perdure.db")); err != nil {
		t.Errorf("the foreign database: %v", err)
	}
}

// An onLine is a buffer that calls a function when a word is first written.
type onLine struct {
	bytes.Buffer
	word string
	do   func()
}

func (w *onLine) Write(p []byte) (int, error) {
	if w.do != nil && bytes.Contains(p, []byte(w.word)) {
		do := w.do
		w.do = nil
		do()
	}
	return w.Buffer.Write(p)
}

func TestTwoDemosInOneDirectory(t *testing.T) {
	t.Setenv(child, "1")
	dir, stderr := t.TempDir(), &bytes.Buffer{}
	args := []string{"demo", "--once", "--kills", "1", "--seed", "1", "--dir", dir}
	first := &onLine{word: "✂", do: func() {
		perdureCommand(t, args...).refused(t, exitConflict, "another demo is at work")
	}}
	if code := run(t.Context(), "perdure", args, strings.NewReader(""), first,
		stderr); code != exitOK || first.do != nil {
		t.Errorf("exit code %d: %s\n%s", code, stderr, first)
	}
}

func write(t *testing.T, name string) {
	t.Helper()
	if err := os.WriteFile(name, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestDemoInterrupted(t *testing.T) {
	t.Setenv(child, "1")
	dir := t.TempDir()
	for _, word := range []string{"store", "✂", "↻", "▶"} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stdout, stderr := &onLine{word: word, do: cancel}, &bytes.Buffer{}
		code := run(ctx, "perdure", []string{"demo", "--seed", "1", "--dir", dir},
			strings.NewReader(""), stdout, stderr)
		if code != exitInterrupted || stderr.String() != "error: interrupted\n" {
			t.Errorf("%s: exit code %d, stderr %q", word, code, stderr)
		}
		gone(t, dir)
	}
}

// gone waits until no process of the demo in dir is left.
func gone(t *testing.T, dir string) {
	t.Helper()
	calls, _ := demo.ReadLedger(filepath.Join(dir, "ledger.jsonl")) // it may not be there yet
	for _, c := range calls {
		for lives(c.Worker) {
			runtime.Gosched() // no event reports the end of a process that is not a child
		}
	}
	var mark struct{ World string }
	data, err := os.ReadFile(filepath.Join(dir, "demo.json"))
	if err == nil {
		err = json.Unmarshal(data, &mark)
	}
	if err != nil {
		t.Fatal(err)
	}
	for mark.World != "" {
		c, err := net.Dial("tcp", mark.World)
		if err != nil {
			return
		}
		c.Close()
	}
}

// lives reports whether a process runs. A process that has ended does not, even if nobody
// has read its exit code yet.
func lives(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil || p.Signal(syscall.Signal(0)) != nil {
		return false
	}
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // only some systems have it
	return !bytes.Contains(stat, []byte(") Z "))
}

// Without --once and without a terminal the worker goes on, so that other processes can use
// the file. At the end it leaves in order.
func TestDemoGoesOn(t *testing.T) {
	t.Setenv(child, "1")
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	approve := func() {
		for _, c := range ledger(t, dir) { // the worker ignores Ctrl-C
			if p, err := os.FindProcess(c.Worker); err != nil || p.Signal(os.Interrupt) != nil {
				t.Errorf("worker %d does not live; %v", c.Worker, err)
			}
		}
		elsewhere(t, dir, func(_ *sqlite.Store, c *perdure.Client) error {
			retriesFailed(t, c)
			_, err := c.Send(t.Context(), "exp-9", "answer",
				[]byte(`{"by":"manager","approved":true}`))
			return err
		})
	}
	stderr := &bytes.Buffer{}
	stdout := &onLine{word: "Ctrl-C ends", do: approve}
	after := &onLine{word: "ask ✓  pay ✓  result ✓  COMPLETED", do: cancel}
	args := []string{"demo", "--seed", "1", "--kills", "0", "--dir", dir}
	code := run(ctx, "perdure", args, strings.NewReader(""), io.MultiWriter(stdout, after), stderr)
	if code != exitInterrupted || stderr.String() != "error: interrupted\n" || after.do != nil {
		t.Errorf("exit code %d, stderr %q\n%s", code, stderr, stdout)
	}
	gone(t, dir)
	leftOrderly(t, dir, journal.Completed)
}

// retriesFailed retries the failed runs of a demo by a batch, and waits for its end.
func retriesFailed(t *testing.T, c *perdure.Client) {
	t.Helper()
	b, err := batch.Start(t.Context(), c, batch.Spec{
		Order: admin.Order{Action: journal.ActionRetry}, Filter: "status=FAILED",
	})
	if err != nil {
		t.Error(err)
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	run, err := c.Get(ctx, b.RunID)
	if err == nil {
		_, err = run.Result(ctx)
	}
	if err != nil {
		t.Error("the batch has not ended:", err)
	}
	if b, err = batch.Get(t.Context(), c, b.ID); err != nil || b.Done == 0 || b.Failed > 0 {
		t.Errorf("%+v: %v", b, err)
	}
}

// leftOrderly checks the file that a demo has left in dir: it has no dead engine, and it
// has runs that wait, which can be read while no engine runs.
func leftOrderly(t *testing.T, dir string, approval journal.Status) {
	t.Helper()
	elsewhere(t, dir, func(s *sqlite.Store, c *perdure.Client) error {
		info, err := s.Info(t.Context())
		if err != nil || len(info.Engines) > 0 {
			return fmt.Errorf("engines %v: %w", info.Engines, err)
		}
		runs, err := c.Statuses(t.Context(), "exp-9", "sub-5")
		if err != nil || runs[0].Head.Status != approval || runs[1].Head.Status != journal.Waiting {
			return fmt.Errorf("runs %+v: %w", runs, err)
		}
		return nil
	})
}

// elsewhere uses the file of a demo as another process does.
func elsewhere(t *testing.T, dir string, do func(*sqlite.Store, *perdure.Client) error) {
	t.Helper()
	s, err := sqlite.Open(filepath.Join(dir, "perdure.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := perdure.NewClient(t.Context(), s)
	if err == nil {
		err = do(s, c)
	}
	if err != nil {
		t.Error(err)
	}
}

// A closed pipe ends the demo and its processes: in another process by a signal, in this
// process by the error of the write.
func TestDemoWithoutAListener(t *testing.T) {
	t.Setenv(child, "1")
	dir := t.TempDir()
	args := []string{"demo", "--once", "--seed", "1", "--dir", dir}
	cmd := exec.Command(os.Args[0], args...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Error(err)
	}
	out.Close()
	if err := cmd.Wait(); err == nil {
		t.Error("it went on")
	}
	gone(t, dir)

	stderr := &bytes.Buffer{}
	reader, writer := io.Pipe()
	reader.Close()
	if code := run(t.Context(), "perdure", args, strings.NewReader(""), writer,
		stderr); code != exitFailed ||
		!strings.Contains(stderr.String(), "the report cannot be written") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	gone(t, dir)
}

func TestDemoRefusesStores(t *testing.T) {
	dir := t.TempDir()
	foreign := filepath.Join(dir, "orders.db")
	write(t, foreign)
	for _, c := range []struct {
		flags   string
		code    int
		message string
	}{
		{"--cluster 3", exitUsage, "several workers need a PostgreSQL"},
		{"--cluster 3 --store " + foreign, exitUsage, "several workers need a PostgreSQL"},
		{"--cluster -1", exitUsage, "--cluster -1 is not valid: allowed are 1 to 32"},
		{"--store memory:", exitUsage, "a store in memory does not survive a kill"},
		{"--store " + foreign, exitConflict, "orders.db is there, and no demo made it"},
		{
			"--cluster 3 --store postgres://127.0.0.1:1/shop?sslmode=disable", exitUnreachable,
			"no server at 127.0.0.1:1",
		},
	} {
		args := append([]string{"demo", "--once", "--dir", filepath.Join(dir, "demo")},
			strings.Fields(c.flags)...)
		perdureCommand(t, args...).refused(t, c.code, c.message)
	}
	t.Setenv(place.Env, foreign) // an SQLite file of the variable is not the demo's
	if r := perdureCommand(t, "demo", "--once", "--kills", "0", "--dir",
		filepath.Join(dir, "demo")); r.code != exitOK {
		t.Errorf("exit code %d: %s\n%s", r.code, r.stderr, r.stdout)
	}
	t.Setenv(place.Env, "")
	own := filepath.Join(dir, "own.db")
	for range 2 { // the second demo removes the database of the first
		if r := perdureCommand(t, "demo", "--once", "--kills", "0", "--dir",
			filepath.Join(dir, "demo"), "--store", own); r.code != exitOK {
			t.Errorf("exit code %d: %s\n%s", r.code, r.stderr, r.stdout)
		}
	}
	if data, err := os.ReadFile(foreign); err != nil || string(data) != "mine" {
		t.Errorf("the foreign file has %q, %v", data, err)
	}
}
