package app

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The console blocks of each document are run, in order, in a directory of its own that has
// the program and the examples. The output in a block must match the printed output; see
// like. The differences to a script are:
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
		all := runnable(blocks(string(text)))
		if ran += len(all); len(all) == 0 {
			continue
		}
		t.Run(strings.TrimPrefix(filepath.ToSlash(file), "../"), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, bin, "NO_COLOR=1")
			programs, err := filepath.Glob(filepath.Join(bin, "*"))
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range programs {
				if err := os.Symlink(p, filepath.Join(s.dir, filepath.Base(p))); err != nil {
					t.Fatal(err)
				}
			}
			for _, c := range all {
				if strings.HasPrefix(c.text, "kill -9 ") {
					s.kill()
					continue
				}
				s.run(file, c)
			}
		})
	}
	if ran < 20 {
		t.Errorf("the documents have %d commands that can be run", ran)
	}
}

// blocks returns the commands of all console blocks of a document.
func blocks(text string) []command {
	var all []command
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		if lines[i] != "```console" {
			continue
		}
		first := i + 1
		for i++; i < len(lines) && lines[i] != "```"; i++ {
		}
		all = append(all, commands(strings.Join(lines[first:i], "\n"), first+1)...)
	}
	return all
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
func runnable(all []command) []command {
	var out []command
	for _, c := range all {
		c.text = goRun.ReplaceAllString(c.text, "./$1")
		if !exits.MatchString(c.text) {
			c.text = remark.ReplaceAllString(c.text, "")
		}
		if notRun.MatchString(c.text) {
			continue
		}
		if serves.MatchString(c.text) && !strings.HasSuffix(c.text, " &") {
			c.text += " &"
		}
		out = append(out, c)
	}
	return out
}

func TestBlocksAreFound(t *testing.T) {
	all := runnable(
		blocks("text\n```console\n$ go run ./cmd/perdure demo    # see it\nseen\n" +
			"$ go test ./...\n```\n```go\n$ no\n```\n```console\n$ ./orders serve\n" +
			"$ ./orders start x     # exit 3\n```\n"))
	want := []command{
		{line: 3, text: "./perdure demo", want: []string{"seen"}},
		{line: 11, text: "./orders serve &"},
		{line: 12, text: "./orders start x     # exit 3"},
	}
	if len(all) != len(want) {
		t.Fatalf("%+v", all)
	}
	for i, c := range all {
		if c.line != want[i].line || c.text != want[i].text ||
			strings.Join(c.want, "|") != strings.Join(want[i].want, "|") {
			t.Errorf("%+v, want %+v", c, want[i])
		}
	}
}
