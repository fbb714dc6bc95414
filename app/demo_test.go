package app

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/perdure/perdure/app/internal/demo"
)

// spec: L-17
func TestDemo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "demo")
	for _, args := range [][]string{
		{"--kills", "2", "--seed", "1"},
		{"--kills", "0", "--seed", "1"},
		{"--kills", "5", "--seed", "3", "--orders", "2"}, // several in one order
		{"--kills", "9", "--seed", "3"},                  // told in short
	} {
		r := perdureCommand(t, append([]string{"demo", "--once", "--dir", dir}, args...)...)
		if r.code != exitOK || r.stderr != "" {
			t.Fatalf("%v: exit code %d: %s\n%s", args, r.code, r.stderr, r.stdout)
		}
		lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
		next := lines[len(lines)-2]
		if len(lines) > 25 || !strings.HasPrefix(next, "next    ") || strings.Contains(r.stdout, "✗ (") {
			t.Errorf("%v: %d lines:\n%s", args, len(lines), r.stdout)
		}
		repeats := countRepeats(t, filepath.Join(dir, "ledger.jsonl"))
		if args[1] != "0" && repeats == 0 {
			t.Errorf("%v: no call was repeated", args)
		}
		if args[1] == "0" && repeats > 0 {
			t.Errorf("%v: %d calls were repeated", args, repeats)
		}
	}
}

func countRepeats(t *testing.T, ledger string) int {
	t.Helper()
	calls, err := demo.ReadLedger(ledger)
	if err != nil {
		t.Fatal(err)
	}
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

// onLine calls a function when a word is written for the first time.
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
	if code := run(t.Context(), args, strings.NewReader(""), first, stderr); code != exitOK || first.do != nil {
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
		code := run(ctx, []string{"demo", "--seed", "1", "--dir", dir}, strings.NewReader(""), stdout, stderr)
		if code != exitInterrupted || stderr.String() != "error: interrupted\n" {
			t.Errorf("%s: exit code %d, stderr %q", word, code, stderr)
		}
		calls, _ := demo.ReadLedger(filepath.Join(dir, "ledger.jsonl")) // it may not be there yet
		for _, c := range calls {
			if p, err := os.FindProcess(c.Worker); err == nil && p.Signal(syscall.Signal(0)) == nil {
				t.Errorf("%s: worker %d lives", word, c.Worker)
			}
		}
	}
}
