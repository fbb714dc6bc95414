package app

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/sqlite"
)

func TestWrongCommandLines(t *testing.T) {
	for _, c := range []struct{ line, message string }{
		{"dmo", "there is no command dmo"},
		{"nothing-like-it", "there is no command nothing-like-it"},
		{"--bogus", "unknown flag: --bogus"},
		{"version x", "x is one argument too many"},
		{"demo --kills", "flag needs an argument"},
		{"demo --kills many", `invalid argument "many"`},
		{"demo --once --kills -1", "--kills -1 is not valid: allowed are 0 to 100000"},
		{"demo --once --kills 1000000000", "--kills 1000000000 is not valid"},
		{"demo --once --orders 0", "--orders 0 is not valid: allowed are 1 to 1000000"},
		{"demo --once --orders 1 --kills 99", "too few for 99 kills"},
		{"demo --once --dir=", "a directory is needed"},
		{"demo-worker", "nobody told this process"},
		{"demo-world", "nobody told this process"},
		{"bench --workload no", "there is no workload no"},
		{"bench --store postgres:x", "there is no store postgres:x"},
		{"bench --runs -1", "--runs -1 is not valid"},
		{"bench --payload 9999999", "--payload 9999999 is not valid"},
		{"bench --workload resume --runs 2", "resume is about one run"},
		{"bench -o yaml", "there is no output format yaml"},
	} {
		t.Run(c.line, func(t *testing.T) {
			perdureCommand(t, strings.Fields(c.line)...).refused(t, exitUsage, c.message)
		})
	}
}

func TestATypoIsGuessed(t *testing.T) {
	if r := perdureCommand(t, "dmo"); !strings.Contains(r.stderr, "did you mean demo?") {
		t.Errorf("stderr: %s", r.stderr)
	}
}

func TestHelp(t *testing.T) {
	for _, line := range []string{
		"", "--help", "help", "demo --help", "bench --help", "version --help",
	} {
		t.Run(line, func(t *testing.T) {
			r := perdureCommand(t, strings.Fields(line)...)
			if r.code != exitOK || !strings.HasPrefix(r.stdout, "Examples:\n  perdure ") {
				t.Errorf("exit code %d, and it begins with %.20q", r.code, r.stdout)
			}
			for _, code := range []int{
				exitOK, exitFailed, exitUsage, exitNotFound, exitConflict, exitUnreachable,
				exitCancelled, exitInterrupted,
			} {
				if !strings.Contains(r.stdout, fmt.Sprintf("\n  %-3d  ", code)) {
					t.Errorf("it does not tell exit code %d", code)
				}
			}
			if strings.Contains(r.stdout, "demo-worker") {
				t.Error("it lists a command that is not for people")
			}
		})
	}
}

func TestVersion(t *testing.T) {
	if r := perdureCommand(t, "version"); r.code != exitOK ||
		!strings.HasPrefix(r.stdout, "perdure ") {
		t.Errorf("exit code %d, stdout %q", r.code, r.stdout)
	}
}

// A program without workflows asks the living engines whether one has the workflow.
//
// spec: B-16, P-10
func TestAWrongWorkflowIsNotStarted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "runs.db")
	db, err := sqlite.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	start := func(more ...string) result {
		return perdureCommand(t, append([]string{"start", "gret", "--store", file}, more...)...)
	}
	engine, err := perdure.New(db, perdure.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	greet := perdure.Define("greet", func(context.Context, string) (string, error) {
		return "hello", nil
	})
	if err := engine.Register(greet); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx) }()
	if _, err := engine.Execute(ctx, "greet", []byte(`"ada"`)); err != nil {
		t.Fatal(err)
	}
	start().refused(t, exitNotFound, "no living engine has the workflow")
	if r := start(); !strings.Contains(r.stderr, "did you mean greet? (--force") {
		t.Error(r.stderr)
	}
	if r := start("--force"); r.code != exitOK {
		t.Error(r)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if r := start(); r.code != exitOK { // nobody can tell
		t.Error(r)
	}
}
