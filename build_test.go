package perdure

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// build builds a program for a system, which prints word, and returns its file.
func build(t *testing.T, system, word string, flags ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  "module x\n",
		"main.go": "package main\n\nfunc main() { println(`" + word + "`) }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", append(append([]string{"build"}, flags...), "-o", "x", ".")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0", "GOOS="+system)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file, err := os.ReadFile(filepath.Join(dir, "x"))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// spec: L-6
func TestABuildIsKnownByItsID(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds programs")
	}
	for _, system := range []string{"linux", "windows"} {
		hello, world := build(t, system, "hello"), build(t, system, "world")
		if buildID(hello[:min(len(hello), idWithin)]) == nil {
			t.Errorf("%s: there is no build ID", system)
		}
		if buildOf(bytes.NewReader(hello)) == buildOf(bytes.NewReader(world)) {
			t.Errorf("%s: builds of two programs have one name", system)
		}
	}
}

// An ID that somebody has set says nothing: Bazel, for one, sets the same word for all.
//
// spec: L-6
func TestABuildWithoutAnIDIsKnownByItsContent(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds programs")
	}
	for _, id := range []string{"", "redacted", "a/b", "///", "github.com/acme/orders/prod"} {
		flag := "-ldflags=-buildid=" + id
		hello, world := build(t, runtime.GOOS, "hello", flag), build(t, runtime.GOOS, "world", flag)
		got, other := buildOf(bytes.NewReader(hello)), buildOf(bytes.NewReader(world))
		if hash := sha256.Sum256(hello); got != hex.EncodeToString(hash[:8]) || got == other {
			t.Errorf("build ID %q: %s, and %s of another program", id, got, other)
		}
	}
}

func TestAFileThatCannotBeReadHasNoBuild(t *testing.T) {
	if got := buildOf(bytes.NewReader(nil)); got != unknownBuild {
		t.Errorf("%q", got)
	}
}
