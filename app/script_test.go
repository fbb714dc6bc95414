package app

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/callback"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/internal/place"
	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/machine"
	"github.com/perdure/perdure/steplog"
	"github.com/perdure/perdure/stream"
	"github.com/perdure/perdure/update"
)

// claim is a machine that rejects claims above 100, and wants a look at those above 50.
func claim() *machine.Machine[int] {
	m := machine.New[int]("claim", "check")
	machine.Add(m, "check", machine.Do(func(_ context.Context, n int) (int, error) {
		if n > 100 {
			return 0, fmt.Errorf("%d is too much", n)
		}
		return n, nil
	})).To("look", "pay").Route(func(r machine.Result) string {
		var n int
		if err := r.Decode(&n); err != nil || n > 50 {
			return "look"
		}
		return "pay"
	})
	machine.Add(m, "look", func(ctx context.Context, n int) (machine.Action, error) {
		if seen, err := perdure.NewSignal[bool]("seen").All(ctx); err != nil || len(seen) == 0 {
			return machine.Suspend(), err
		}
		return machine.Complete(n), nil
	}).To("pay")
	machine.Add(m, "pay", machine.Do(func(_ context.Context, n int) (string, error) {
		return fmt.Sprint("paid ", n), nil
	}))
	return m
}

// scripted has the workflows of the program that the scripts in testdata run.
var scripted = []perdure.Definition{
	perdure.Define("greet", func(ctx context.Context, name string) (string, error) {
		return perdure.Step(ctx, "write", func(context.Context) (string, error) {
			return "Hello, " + name, nil
		})
	}, perdure.About{Version: "1.2", Description: "Says hello"}),
	perdure.Define("refuse", func(ctx context.Context, why string) (string, error) {
		return perdure.Step(ctx, "try", func(context.Context) (string, error) {
			return "", errors.New(why)
		}, perdure.NoRetry)
	}),
	perdure.Define("lose", func(ctx context.Context, what string) (string, error) {
		return perdure.Step(ctx, "find", func(context.Context) (string, error) {
			return "", errors.New(what + " is lost")
		}, perdure.NoRetry)
	}, deadletter.Automatic(true)),
	perdure.Define("await", func(ctx context.Context, _ string) (string, error) {
		return perdure.NewSignal[string]("go").Wait(ctx)
	}),
	perdure.Define("sale", func(ctx context.Context, n int) (int, error) {
		best := 0
		for range n {
			ask, err := update.New[int, string]("raise", nil).Wait(ctx)
			if err != nil {
				return 0, err
			}
			if ask.Value <= best {
				err = ask.Refuse(ctx, fmt.Errorf("%d is not above %d", ask.Value, best))
			} else {
				best = ask.Value
				err = ask.Reply(ctx, fmt.Sprint("best is ", best))
			}
			if err != nil {
				return 0, err
			}
		}
		return best, nil
	}),
	perdure.Define("signoff", func(ctx context.Context, key string) (string, error) {
		out, err := approval.Wait(ctx, approval.Ask{
			Key: key, Title: "30 % off", Role: "manager", Quorum: 2, Form: percent{},
			Within: 24 * time.Hour,
		})
		return string(out.Status), err
	}),
	perdure.Define("park", func(ctx context.Context, why string) (string, error) {
		d, err := perdure.Park(ctx, "bank", why, "retry", "skip")
		return d.Choice, err
	}),
	perdure.Define("ask", func(ctx context.Context, why string) (string, error) {
		d, err := perdure.Park(ctx, "anything", why)
		return d.Choice, err
	}),
	// The errors of the next two workflows have codes of their own.
	perdure.Define("misuse", func(ctx context.Context, _ int) (int, error) {
		return 0, perdure.Fail(ctx, &perdure.Error{
			Code: journal.CodeInvalid, Message: "a bad step", Err: context.Canceled,
		})
	}),
	perdure.Define("orphan", func(ctx context.Context, _ int) (int, error) {
		return 0, &perdure.Error{Code: journal.CodeCancelled, Message: "its child was cancelled"}
	}),
	perdure.Define("twice", func(ctx context.Context, n int) (int, error) {
		if n > 0 {
			return n, perdure.ContinueAsNew(ctx, n-1)
		}
		return n, nil
	}),
	perdure.Define("stubborn", func(ctx context.Context, _ int) (int, error) {
		return perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
			fmt.Println("it has begun")
			<-ctx.Done()
			return 0, ctx.Err()
		})
	}),
	perdure.Define("sleep", func(ctx context.Context, _ int) (int, error) {
		return 0, perdure.Sleep(ctx, 30*24*time.Hour)
	}),
	perdure.Define("changed", func(ctx context.Context, stay bool) (int, error) {
		v, err := perdure.Version(ctx, "pay-first", 2)
		if err != nil || !stay {
			return v, errors.Join(err, errors.New("it fails"))
		}
		return v, perdure.Sleep(ctx, 30*24*time.Hour)
	}),
	perdure.Define("paid", func(ctx context.Context, file string) (json.RawMessage, error) {
		w, err := callback.New[json.RawMessage](ctx, "card", perdure.Within(time.Hour))
		if err != nil {
			return nil, err
		}
		if err := perdure.Do(ctx, "ask", func(ctx context.Context) error {
			text, err := w.Token(ctx)
			if err != nil {
				return err
			}
			if err := os.WriteFile(file+".part", []byte(text), 0o600); err != nil {
				return err
			}
			return os.Rename(file+".part", file)
		}); err != nil {
			return nil, err
		}
		return w.Await(ctx)
	}),
	// Its first attempt fails after it has said something.
	perdure.Define("talk", func(ctx context.Context, name string) (string, error) {
		return perdure.Step(ctx, "say", func(ctx context.Context) (string, error) {
			n, _, err := perdure.Attempt(ctx)
			if err != nil {
				return "", err
			}
			steplog.Logger(ctx).Info("it speaks", "to", name)
			err = stream.New[string]("words").Append(ctx, fmt.Sprint("Hello ", n))
			if n == 1 {
				return "", errors.New("a cough")
			}
			return "said", err
		}, perdure.Retry{Attempts: 2, First: time.Millisecond, Factor: 1}, steplog.Keep{})
	}),
	claim(),
	gated("waited", dag.Sync),
	gated("unwaited", dag.Async),
}

// percent is a form for a number.
type percent struct{}

func (percent) Schema() json.RawMessage { return json.RawMessage(`{"type":"number"}`) }

func (percent) Check(data json.RawMessage) error {
	if string(data) == "null" {
		return errors.New("a number is needed")
	}
	return json.Unmarshal(data, new(int))
}

// gated returns a graph in this mode, whose runs wait for a signal.
func gated(name string, m dag.Mode) perdure.Definition {
	g := dag.New[string](name).Mode(m)
	return g.Output(dag.Add(g, "pass", func(context.Context, string) (string, error) {
		return "passed", nil
	}).WaitSignal("go", 0))
}

// A stage is a place to run scripts: a directory, and programs by name.
type stage struct {
	*testing.T
	dir string
	env []string
	off []func(os.Signal) // ends each background command
}

// newStage returns a stage with the programs in bin.
func newStage(t *testing.T, bin string, env ...string) *stage {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("scripts are for a Unix shell")
	}
	s := &stage{T: t, dir: t.TempDir()}
	s.env = append(os.Environ(), append(env, "PATH="+bin+string(os.PathListSeparator)+
		os.Getenv("PATH"))...)
	t.Cleanup(func() {
		for _, off := range s.off {
			off(os.Interrupt)
		}
	})
	return s
}

// A command is a command of a script, with its expected output.
type command struct {
	line int
	text string
	want []string
	only string // what the command is for: SQLite, PostgreSQL or file; empty for all
}

var exits = regexp.MustCompile(`\s+# exit (\d+)$`)

// only matches the line that begins a part for one store, or again one for all. The part goes on to
// the next such line, or to the end. A part for a file is not for a server that has the file.
var only = regexp.MustCompile(`^# (?:Only (\w+)|For all):`)

// commands parses a script. A line that begins with "$ " is a command. The lines after it
// are its output.
func commands(script string, first int) []command {
	var all []command
	of := ""
	for i, line := range strings.Split(strings.TrimRight(script, "\n"), "\n") {
		if m := only.FindStringSubmatch(line); m != nil {
			of = m[1]
		}
		if text, ok := strings.CutPrefix(line, "$ "); ok {
			all = append(all, command{line: first + i, text: text, only: of})
		} else if len(all) > 0 && !strings.HasPrefix(line, "# ") {
			all[len(all)-1].want = append(all[len(all)-1].want, line)
		}
	}
	for i := range all {
		for n := len(all[i].want); n > 0 && all[i].want[n-1] == ""; n-- {
			all[i].want = all[i].want[:n-1]
		}
	}
	return all
}

// run runs a command. Its output and its exit code must be as expected: the exit code of
// its comment, or 0. A command that ends in & goes on in the background.
func (s *stage) run(file string, c command) {
	s.Helper()
	code, text := 0, c.text
	if m := exits.FindStringSubmatch(text); m != nil {
		code, _ = strconv.Atoi(m[1])
		text = strings.TrimSuffix(text, m[0])
	}
	if beside, ok := strings.CutSuffix(text, " &"); ok {
		s.begin(beside)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", text)
	cmd.Dir, cmd.Env = s.dir, s.env
	cmd.WaitDelay = time.Second // children of the shell may outlive it
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != code {
		s.Errorf("%s:%d: %s\nexit code %d, want %d (%v)\n%s", file, c.line, text, got, code, err,
			&out)
		return
	}
	if len(c.want) > 0 && !like(out.String(), c.want) {
		s.Errorf("%s:%d: %s\nprints\n%s\nand should print\n%s", file, c.line, text, &out,
			strings.Join(c.want, "\n"))
	}
}

// begin starts a background command, and waits until it prints something. It runs until the
// end of the test at most.
func (s *stage) begin(text string) {
	s.Helper()
	cmd := exec.Command("sh", "-c", "exec "+text)
	cmd.Dir, cmd.Env = s.dir, s.env
	r, w, err := os.Pipe()
	if err != nil {
		s.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	w.Close()
	heard := make(chan struct{})
	go func() {
		buf := make([]byte, 4096)
		_, _ = r.Read(buf)
		close(heard)
		for {
			if _, err := r.Read(buf); err != nil {
				return
			}
		}
	}()
	<-heard
	s.off = append(s.off, func(how os.Signal) {
		_ = cmd.Process.Signal(how) // it fails if the process has ended
		_ = cmd.Wait()
		r.Close()
	})
}

// kill ends the background commands as kill -9 does.
func (s *stage) kill() {
	for _, off := range s.off {
		off(os.Kill)
	}
	s.off = nil
}

// like reports whether text matches the lines. Within a line, … matches any text. A line
// with only … matches any number of lines.
func like(text string, want []string) bool {
	var b strings.Builder
	b.WriteString(`^`)
	for _, line := range want {
		if strings.TrimSpace(line) == "…" {
			b.WriteString(`(?:.*\n)*?`)
			continue
		}
		for i, part := range strings.Split(line, "…") {
			if i > 0 {
				b.WriteString(`.*`)
			}
			b.WriteString(spaces.ReplaceAllString(regexp.QuoteMeta(part), ` +`))
		}
		b.WriteString(` *\n`)
	}
	b.WriteString(`$`)
	return regexp.MustCompile(b.String()).MatchString(strings.TrimRight(text, "\n") + "\n")
}

// spaces matches the space between two columns, whose width depends on the cells.
var spaces = regexp.MustCompile(` {2,}`)

// shopProgram returns a directory with the program of the scripts.
func shopProgram(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "shop")); err != nil {
		t.Skip(err)
	}
	return bin
}

// spec: B-16
//
// The scripts run the program like an application with workflows of its own.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	bin := shopProgram(t)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			script, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := newStage(t, bin, child+"=1", "NO_COLOR=1")
			for _, c := range commands(string(script), 1) {
				if c.only != "PostgreSQL" {
					s.run(file, c)
				}
			}
		})
	}
}

// forPostgreSQL are the scripts that know what is different on PostgreSQL.
var forPostgreSQL = []string{"runs", "bulk", "alerts", "callbacks", "output"}

var seed = flag.Uint64("seed", 0, "of the places that scripts are run at; 0 is another each time")

// spec: B-16, P-2
//
// The same commands have the same output at a server that has the file, and on the PostgreSQL that
// the variable of a store names. A script that may run at both runs at one of them, which the seed
// chooses.
func TestScriptsElsewhere(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	of := cmp.Or(*seed, rand.Uint64())
	t.Logf("seed %d", of)
	random := rand.New(rand.NewPCG(of, 0))
	bin, has := shopProgram(t), false
	t.Run("PostgreSQL is there", func(t *testing.T) {
		testpg.URL(t)
		has = true
	})
	for _, file := range files {
		name, play := strings.TrimSuffix(filepath.Base(file), ".txt"), playAtServer
		if slices.Contains(forPostgreSQL, name) && random.IntN(2) == 0 && has {
			name, play = name+" on PostgreSQL", playOnPostgreSQL
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, bin, file)
		})
	}
}

func playOnPostgreSQL(t *testing.T, bin, file string) {
	script, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := newStage(t, bin, child+"=1", "NO_COLOR=1", place.Env+"="+testpg.URL(t))
	for _, c := range commands(string(script), 1) {
		if c.only != "" && c.only != "PostgreSQL" {
			continue
		}
		for i, line := range c.want {
			c.want[i] = strings.ReplaceAll(line, " --store perdure.db", "")
		}
		s.run(file, c)
	}
}

func TestScriptsSeeWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		text, want string
		like       bool
	}{
		{"a\nb\n", "a\nb", true},
		{"a\nb\n", "a", false},
		{"a\nb\nc\n", "a\n…\nc", true},
		{"a\nc\n", "a\n…\nc", true},
		{"a\nb\nd\n", "a\n…\nc", false},
		{"took 31ms, twice\n", "took …ms, twice", true},
		{"took 31s\n", "took …ms", false},
		{"ID    NAME\n", "ID  NAME", true},
		{"ID NAME\n", "IDNAME", false},
	} {
		if got := like(c.text, strings.Split(c.want, "\n")); got != c.like {
			t.Errorf("%q like %q is %t", c.text, c.want, got)
		}
	}
}
