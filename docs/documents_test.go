// Package docs_test runs the commands of the documents.
package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/script"
)

// The console blocks of each document are run, in order, in a directory of its own that has
// the program and the examples. The output in a block must match the printed output. The
// differences to a script are:
//
//   - a command with serve goes on in the background;
//   - kill -9 kills the background commands;
//   - commands that build, test or measure are not run.
func TestDocuments(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds six programs")
	}
	bin := t.TempDir()
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o",
		bin+string(filepath.Separator), "./cmd/perdure", "./examples/...")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	programs, err := filepath.Glob(filepath.Join(bin, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, pattern := range []string{
		"../*.md", "../docs/*.md", "../docs/howto/*.md", "../examples/*/*.md",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	ran := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all := runnable(script.Blocks(string(text)))
		if ran += len(all); len(all) == 0 {
			continue
		}
		t.Run(strings.TrimPrefix(filepath.ToSlash(file), "../"), func(t *testing.T) {
			t.Parallel()
			play(t, bin, programs, file, all)
		})
	}
	if ran < 20 {
		t.Errorf("the documents have %d commands that can be run", ran)
	}
}

func play(t *testing.T, bin string, programs []string, file string, all []script.Command) {
	s := script.NewStage(t, bin, "NO_COLOR=1")
	for _, p := range programs {
		if err := os.Symlink(p, filepath.Join(s.Dir, filepath.Base(p))); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range all {
		if strings.HasPrefix(c.Text, "kill -9 ") {
			s.Kill()
			continue
		}
		s.Run(file, c)
	}
}

var (
	goRun  = regexp.MustCompile(`go run \./(?:cmd|examples)/(\w+)`)
	notRun = regexp.MustCompile(
		`^(go (build|test|install|get)|git|cd|\.ci/run|\./perdure bench|perdure bench|benchstat|curl)\b`)
	remark = regexp.MustCompile(`\s{2,}#.*$`)
	serves = regexp.MustCompile(`\bserve\b`)
)

// runnable returns the commands that can be run here. A go run becomes the program that is
// already built.
func runnable(all []script.Command) []script.Command {
	var out []script.Command
	for _, c := range all {
		c.Text = goRun.ReplaceAllString(c.Text, "./$1")
		if !c.HasCode() {
			c.Text = remark.ReplaceAllString(c.Text, "")
		}
		if notRun.MatchString(c.Text) {
			continue
		}
		if serves.MatchString(c.Text) && !strings.HasSuffix(c.Text, " &") {
			c.Text += " &"
		}
		out = append(out, c)
	}
	return out
}

func TestWhatCanBeRun(t *testing.T) {
	var texts []string
	for _, c := range runnable(script.Parse("$ go run ./cmd/perdure demo    # see it\n"+
		"$ go test ./...\n$ ./orders serve\n$ ./orders start x     # exit 3\n", 1)) {
		texts = append(texts, c.Text)
	}
	want := "./perdure demo|./orders serve &|./orders start x     # exit 3"
	if got := strings.Join(texts, "|"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
