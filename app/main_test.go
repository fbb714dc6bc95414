package app

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/app/internal/scripted"
	"github.com/perdure/perdure/internal/script"
)

// child is an environment variable that makes the test binary run as the program. Tests set
// it for the processes that they start.
const child = "PERDURE_TEST_CHILD"

// bare is its value for a program without workflows of its own.
const bare = "bare"

// ledgered is its value for a program whose steps write into a ledger.
const ledgered = "ledgered"

func TestMain(m *testing.M) {
	switch os.Getenv(child) {
	case "":
	case bare:
		Main()
	case ledgered:
		Main(ledgerOf)
	default:
		Main(scripted.Workflows...)
	}
	os.Exit(m.Run())
}

// run runs one command of a program with these workflows, and returns its exit code.
func run(ctx context.Context, name string, args []string, stdin io.Reader, stdout, stderr io.Writer,
	workflows ...perdure.Definition) int {
	return runApplication(ctx, name, args, stdin, stdout, stderr, Application{Workflows: workflows})
}

// A result is the result of a command.
type result struct {
	code           int
	stdout, stderr string
}

// perdureCommand runs a command in this process. The children of the command are processes.
func perdureCommand(t *testing.T, args ...string) result {
	t.Helper()
	t.Setenv(child, "1")
	return perdureCommandOf(t, nil, args...)
}

// perdureCommandOf runs a command of a program with these workflows in this process.
func perdureCommandOf(t *testing.T, workflows []perdure.Definition, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), "perdure", args, strings.NewReader(""), &stdout, &stderr, workflows...)
	return result{code, stdout.String(), stderr.String()}
}

// refused is [script.Result.Refused].
func (r result) refused(t *testing.T, code int, message string) {
	t.Helper()
	script.Result{Code: r.code, Stdout: r.stdout, Stderr: r.stderr}.Refused(t, code, message)
}

func TestAWrongDefinitionIsToldAtOnce(t *testing.T) {
	var stdout, stderr bytes.Buffer
	wrong := perdure.Define[int, int]("no name", nil)
	code := run(t.Context(), "perdure", []string{"version"}, strings.NewReader(""), &stdout,
		&stderr, wrong)
	result{code, stdout.String(), stderr.String()}.refused(t, exitUsage, `workflow "no name"`)
}
