package app

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/app/internal/scripted"
	"github.com/perdure/perdure/store"
)

// shop runs a command of the program with the workflows of the scripts.
func shop(ctx context.Context, t *testing.T, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(ctx, "shop", args, strings.NewReader(""), &stdout, &stderr, scripted.Workflows...)
	return result{code, stdout.String(), stderr.String()}
}

func TestAnInterruptEndsTheWaitAndNotTheRun(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, args := range [][]string{{"db", "migrate"}, {"start", "await", "--id", "x"}} {
		if r := shop(t.Context(), t, args...); r.code != exitOK {
			t.Fatal(r)
		}
	}
	for _, verb := range []string{"wait", "watch"} {
		ctx, cancel := context.WithCancel(t.Context())
		stderr := &onLine{word: "no engine has", do: cancel}
		code := run(ctx, "shop", []string{"runs", verb, "x"}, strings.NewReader(""),
			&bytes.Buffer{}, stderr, scripted.Workflows...)
		if code != exitInterrupted || !strings.Contains(stderr.String(),
			"error: interrupted: run ") || !strings.Contains(stderr.String(), " goes on\n") {
			t.Errorf("%s: exit code %d: %s", verb, code, stderr)
		}
	}
	if r := shop(t.Context(), t, "runs", "get", "x"); !strings.Contains(r.stdout, "PENDING") {
		t.Error(r)
	}
}

func TestAnInterruptDoesNotWaitForALockedDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		unlocked := make(chan struct{})
		defer close(unlocked)
		cmd := &cobra.Command{}
		cmd.SetContext(ctx)
		locked := func(context.Context) (*client, error) {
			interrupt()
			<-unlocked
			return nil, store.ErrLocked
		}
		began := time.Now()
		if err := using(cmd, locked, nil); exitCode(err) != exitInterrupted ||
			time.Since(began) != patience {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// The first interrupt lets a step in flight end, the second one does not. This is also true
// if interrupts were ignored when the process began, as in the background of a script.
func TestASecondInterruptEndsServeAtOnce(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("in front", func(t *testing.T) { interruptTwice(t, exec.Command(self, "serve")) })
	t.Run("in the background", func(t *testing.T) {
		interruptTwice(t, exec.Command("sh", "-c", `trap "" INT; exec "$0" serve`, self))
	})
}

func interruptTwice(t *testing.T, cmd *exec.Cmd) {
	dir := t.TempDir()
	if r := shop(t.Context(), t, "db", "migrate", "--store",
		filepath.Join(dir, "perdure.db")); r.code != exitOK {
		t.Fatal(r)
	}
	if r := shop(t.Context(), t, "start", "stubborn", "--store",
		filepath.Join(dir, "perdure.db")); r.code != exitOK {
		t.Fatal(r)
	}
	cmd.Dir, cmd.Env = dir, append(os.Environ(), child+"=1")
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	lines := bufio.NewScanner(out)
	for _, word := range []string{"it has begun", "another interrupt ends it now"} {
		for lines.Scan() && !strings.Contains(lines.Text(), word) {
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Error("a second interrupt let it end in order")
	}
	if r := shop(t.Context(), t, "runs", "get", "@latest", "--store", filepath.Join(dir,
		"perdure.db")); r.code != exitOK || !strings.Contains(r.stdout, "no engine has the store") {
		t.Error(r)
	}
}

func TestANewerDatabaseIsLeftAlone(t *testing.T) {
	t.Chdir(t.TempDir())
	if r := shop(t.Context(), t, "db", "migrate"); r.code != exitOK {
		t.Fatal(r)
	}
	db, err := sql.Open("sqlite", "perdure.db")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("update perdure_meta set value = 1000 where key = 'schema'"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"db migrate", "db status", "runs list", "start greet", "serve --log off",
	} {
		t.Run(line, func(t *testing.T) {
			shop(t.Context(), t, strings.Fields(line)...).refused(t, exitUnreachable,
				store.ErrNewer.Error())
		})
	}
}

// Nobody reads or writes an older database before it is migrated.
func TestAnOlderDatabaseHasToBeMigrated(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("perdure.db", nil, 0o644); err != nil { // an empty file has version 0
		t.Fatal(err)
	}
	for _, line := range []string{"db status", "runs list", "start greet"} {
		r := shop(t.Context(), t, strings.Fields(line)...)
		r.refused(t, exitUnreachable, store.ErrOlder.Error())
		if !strings.Contains(r.stderr, "hint: shop db migrate --store perdure.db brings it to "+
			"this version") {
			t.Error(r.stderr)
		}
	}
	if r := shop(t.Context(), t, "db", "migrate"); r.code != exitOK ||
		r.stdout != "perdure.db was migrated from schema 0 to schema 9\n" {
		t.Error(r)
	}
}

func TestEveryCommandHasExamples(t *testing.T) {
	p, err := newProgram("shop", Application{})
	if err != nil {
		t.Fatal(err)
	}
	all := 0
	for left := p.root().Commands(); len(left) > 0; left = left[1:] {
		c := left[0]
		left = append(left, c.Commands()...)
		if !c.IsAvailableCommand() {
			continue
		}
		if all++; !strings.HasPrefix(c.Example, "  shop ") || c.Short == "" ||
			strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: %q begins with %q", c.CommandPath(), c.Short, c.Example)
		}
	}
	if all < 25 {
		t.Errorf("there are %d commands", all)
	}
}
