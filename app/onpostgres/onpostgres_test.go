// Package onpostgres tests commands on PostgreSQL. Package app needs no server for its own tests.
package onpostgres

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure/app"
	"github.com/perdure/perdure/app/internal/scripted"
	"github.com/perdure/perdure/internal/place"
	"github.com/perdure/perdure/internal/script"
	"github.com/perdure/perdure/internal/testpg"
)

// child is an environment variable that makes the test binary run as the program, with the
// workflows of the scripts.
const child = "PERDURE_TEST_CHILD"

// The exit codes of refusals; the help of the program lists them.
const (
	exitOK          = 0
	exitUnreachable = 5
	exitForbidden   = 6
)

func TestMain(m *testing.M) {
	if os.Getenv(child) != "" {
		app.Main(scripted.Workflows...)
	}
	os.Exit(m.Run())
}

// A program is the program by one of its names, which its hints have.
type program string

const (
	perdure program = "perdure"
	shop    program = "shop"
)

// in returns a directory with the program.
func (p program) in(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, string(p))); err != nil {
		t.Skip(err)
	}
	return bin
}

// run runs a command.
func (p program) run(t *testing.T, args ...string) script.Result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(p.in(t), string(p)), args...)
	cmd.Env = append(os.Environ(), child+"=1", "NO_COLOR=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return script.Result{
		Code: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String(),
	}
}

// scripts are the scripts that know what is different on PostgreSQL.
var scripts = []string{"runs", "bulk", "alerts", "callbacks", "output"}

var seed = flag.Uint64("seed", 0, "the seed that chooses the scripts; 0 chooses a new seed")

// The commands have the same output on PostgreSQL. Each time it is another half of the scripts.
//
// spec: B-16, P-2
func TestScripts(t *testing.T) {
	of := cmp.Or(*seed, rand.Uint64())
	t.Logf("seed %d", of)
	bin := shop.in(t)
	for _, i := range rand.New(rand.NewPCG(of, 0)).Perm(len(scripts))[:(len(scripts)+1)/2] {
		t.Run(scripts[i], func(t *testing.T) {
			t.Parallel()
			play(t, bin, filepath.Join("..", "testdata", scripts[i]+".txt"))
		})
	}
}

func play(t *testing.T, bin, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := script.NewStage(t, bin, child+"=1", "NO_COLOR=1", place.Env+"="+testpg.URL(t))
	for _, c := range script.Parse(string(text), 1) {
		if c.Only != "" && c.Only != "PostgreSQL" {
			continue
		}
		for i, line := range c.Want {
			c.Want[i] = strings.ReplaceAll(line, " --store perdure.db", "")
		}
		s.Run(file, c)
	}
}
