package app

import (
	"cmp"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/script"
)

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
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := script.NewStage(t, bin, child+"=1", "NO_COLOR=1")
			for _, c := range script.Parse(string(text), 1) {
				if c.Only != "PostgreSQL" {
					s.Run(file, c)
				}
			}
		})
	}
}

var seed = flag.Uint64("seed", 0, "the seed that chooses the scripts; 0 chooses a new seed")

// spec: B-16
//
// The same commands have the same output at a server that has the file. Each time it is another
// half of the scripts.
func TestScriptsAtAServer(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	of := cmp.Or(*seed, rand.Uint64())
	t.Logf("seed %d", of)
	random := rand.New(rand.NewPCG(of, 0))
	bin := shopProgram(t)
	for _, i := range random.Perm(len(files))[:(len(files)+1)/2] {
		t.Run(strings.TrimSuffix(filepath.Base(files[i]), ".txt"), func(t *testing.T) {
			t.Parallel()
			playAtServer(t, bin, files[i])
		})
	}
}
