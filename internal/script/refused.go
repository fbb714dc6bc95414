package script

import (
	"strings"
	"testing"
)

// A Result is the result of a command.
type Result struct {
	Code           int
	Stdout, Stderr string
}

// Refused fails the test unless the command failed with this exit code, one line and a
// hint, and printed nothing on stdout.
func (r Result) Refused(t *testing.T, code int, message string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(r.Stderr, "\n"), "\n")
	switch {
	case r.Code != code:
		t.Errorf("exit code %d, want %d", r.Code, code)
	case len(lines) != 2 || !strings.HasPrefix(lines[0], "error: ") ||
		!strings.HasPrefix(lines[1], "  hint: "):
		t.Error("want a line and a hint")
	case !strings.Contains(lines[0], message):
		t.Errorf("want it to say %q", message)
	case r.Stdout != "":
		t.Errorf("stdout has %q", r.Stdout)
	}
	if t.Failed() {
		t.Logf("stderr:\n%s", r.Stderr)
	}
}

// Secret is a password in the URLs of tests. No command prints it.
const Secret = "s3cr3t"

// RefusedStore checks that each command refuses a store with the exit code, one line of
// message and one line of hint, and prints neither the password nor the code of a server's error.
func RefusedStore(t *testing.T, run func(args ...string) Result, url string, code int, message,
	hint string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		r := run(append(strings.Fields(line), "--store", url)...)
		r.Refused(t, code, message)
		if !strings.Contains(r.Stderr, hint) {
			t.Errorf("%s: no hint at %q in\n%s", line, hint, r.Stderr)
		}
		if said := r.Stderr + r.Stdout; strings.Contains(said, Secret) ||
			strings.Contains(said, "SQLSTATE") {
			t.Errorf("%s says\n%s", line, said)
		}
	}
}
