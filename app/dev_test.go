package app

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/app/internal/scripted"
)

// A pageCount is the input of the workflow ledger.
type pageCount struct {
	File  string `json:"file"`
	Pages int    `json:"pages"`
}

// ledgerOf writes a line into a file for each call of the body of a step, as the world outside sees
// it: the process and the step.
var ledgerOf = perdure.Define("ledger", func(ctx context.Context, in pageCount) (int, error) {
	for i := range in.Pages {
		if err := perdure.Do(ctx, "page", func(context.Context) error {
			f, err := os.OpenFile(in.File, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				return err
			}
			defer f.Close()
			if _, err := fmt.Fprintln(f, os.Getpid(), i); err != nil {
				return err
			}
			<-time.After(50 * time.Millisecond) // so that a kill finds it in the middle
			return nil
		}, perdure.Key(fmt.Sprint(i))); err != nil {
			return i, err
		}
	}
	return in.Pages, nil
})

// calls returns the processes that have called each step, by their place in the order of their
// first calls: 1 is the first one. It also returns how many there are.
func calls(t *testing.T, file string) (by map[string][]int, processes int) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	by = map[string][]int{}
	places := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if pid, step, ok := strings.Cut(line, " "); ok {
			if places[pid] == 0 {
				places[pid] = len(places) + 1
			}
			path := "page[" + step + "]"
			by[path] = append(by[path], places[pid])
		}
	}
	return by, len(places)
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(2 * time.Minute); !is(); {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("in vain for ", what)
		}
	}
}

// The worker of dev is killed in the middle of a run, twice. Another one is at the same address,
// and the run ends: no step that was finished is done again.
//
// spec: B-16, B-2
func TestDevGoesOnWhenItsWorkerIsKilled(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(child, ledgered)
	s := serveAPI(t, []perdure.Definition{ledgerOf}, "dev", "--addr", "127.0.0.1:0", "--dir", dir)
	file := filepath.Join(dir, "ledger")
	input, err := json.Marshal(pageCount{file, 60})
	if err != nil {
		t.Fatal(err)
	}
	s.want(201, "POST", apiBase+"/workflows/ledger/start",
		`{"id":"l-1","input":`+string(input)+`}`)
	if who := s.want(200, "GET", apiBase+"/session", ""); !strings.Contains(who, `"kills":true`) {
		t.Error(who)
	}
	finished := map[string]int{} // by the process with this place, or one before
	for n := 1; n <= 2; n++ {
		eventually(t, "steps of the worker", func() bool {
			by, processes := calls(t, file)
			return processes == n && len(by) >= 15*n
		})
		var run struct {
			Steps []struct{ Path, Status string }
		}
		text := s.want(200, "GET", apiBase+"/executions/l-1", "")
		if err := json.Unmarshal([]byte(text), &run); err != nil {
			t.Fatal(err)
		}
		for _, step := range run.Steps {
			if step.Status == "DONE" && finished[step.Path] == 0 {
				finished[step.Path] = n
			}
		}
		s.want(202, "POST", apiBase+"/process/kill", "")
	}
	eventually(t, "the end of the run", func() bool {
		answer, err := http.Get(s.url + apiBase + "/executions/l-1/result?wait=10s")
		if err != nil {
			return false // nobody is there yet
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		return err == nil && answer.StatusCode == 200 &&
			strings.Contains(string(text), `"status":"COMPLETED"`)
	})
	by, processes := calls(t, file)
	all := 0
	for step, callers := range by {
		all += len(callers)
		if at := finished[step]; at > 0 && slices.Max(callers) > at {
			t.Errorf("%s was finished by process %d, and called by %v", step, at, callers)
		}
	}
	if len(by) != 60 || processes != 3 || all > 62 || len(finished) < 15 {
		t.Errorf("%d steps called %d times by %d processes; %d were finished at a kill", len(by),
			all, processes, len(finished))
	}
	r := s.stop()
	if r.code != exitOK || strings.Count(r.stderr, "another one takes over") != 2 ||
		strings.Count(r.stderr, "goes on") != 2 {
		t.Error(r)
	}
	if isThere(s.url) {
		t.Error("the worker has outlived dev")
	}
}

// isThere reports whether somebody listens at the address of a server.
func isThere(url string) bool {
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

// spec: B-16
func TestAWorkerWhoseSupervisorIsDeadEnds(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "dev", "--addr", "127.0.0.1:0", "--dir", t.TempDir(), "--empty")
	cmd.Env = append(os.Environ(), child+"="+bare)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !isThere(strings.TrimSpace(url)) {
		t.Error(url, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	eventually(t, "the end of the worker", func() bool { return !isThere(strings.TrimSpace(url)) })
}

// What keeps the first worker from beginning is said once, with its exit code.
//
// spec: B-16, P-9
func TestDevFailsAsItsWorkerDoes(t *testing.T) {
	t.Setenv(child, bare)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "perdure.db"), []byte(strings.Repeat("no", 4096)),
		0o600); err != nil {
		t.Fatal(err)
	}
	r := perdureCommandOf(t, nil, "dev", "--addr", "127.0.0.1:0", "--dir", dir)
	want := perdureCommandOf(t, scripted.Workflows, "serve", "--addr", "127.0.0.1:0", "--store",
		filepath.Join(dir, "perdure.db"))
	if r.code != want.code || r.code == exitOK || r.stdout != "" ||
		strings.Count(r.stderr, "error: ") != 1 {
		t.Errorf("%+v, and serve %+v", r, want)
	}
	perdureCommandOf(t, nil, "dev", "--addr", "0.0.0.0:0", "--dir", t.TempDir()).
		refused(t, exitUsage, "")
	perdureCommandOf(t, nil, "dev", "--addr", "192.0.2.1:1", "--dir", t.TempDir())
}

// A new database begins with runs of each sample. The next dev on it starts none again.
//
// spec: B-16
func TestDevOpensOnData(t *testing.T) {
	t.Setenv(child, bare)
	dir := t.TempDir()
	begin := func(more ...string) *served {
		return serveAPI(t, nil, append([]string{"dev", "--addr", "127.0.0.1:0", "--dir", dir},
			more...)...)
	}
	tours := func(s *served) int {
		text := s.want(200, "GET", apiBase+"/executions?workflow=tour", "")
		return strings.Count(text, `"run_id"`)
	}
	s := begin("--empty")
	if n := tours(s); n != 0 {
		t.Errorf("%d tours with --empty", n)
	}
	s.stop()
	s = begin()
	for path, want := range map[string]string{
		"/executions?status=completed&workflow=report": "report-2026-11-28",
		"/executions?status=failed&workflow=order":     "order-1003",
		"/executions?status=confirmed":                 "transfer-501",
		"/executions?status=running":                   "statements-2026-11",
		"/executions?status=waiting&workflow=ticket":   "ticket-17",
		"/executions?status=completed&workflow=poem":   "poem-sea",
		"/executions/ticket-16":                        "COMPLETED",
		"/executions/tour":                             "COMPLETED",
		"/approvals":                                   "Ada wants back 42.00",
		"/dlq":                                         "invoice-89",
		"/signals/unrouted":                            "ticket-99",
		"/schedules":                                   "greet-every-minute",
	} {
		eventually(t, want+" at "+path, func() bool {
			_, text := s.ask("GET", apiBase+path, "")
			return strings.Contains(text, want)
		})
	}
	s.stop()
	s = begin()
	eventually(t, "readiness", func() bool {
		status, _ := s.ask("GET", "/readyz", "")
		return status == 200
	})
	if n := tours(s); n != 1 {
		t.Errorf("%d tours", n)
	}
	if r := s.stop(); r.code != exitOK {
		t.Error(r)
	}
}
