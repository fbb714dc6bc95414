package testpg

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// folders are the places where packages put PostgreSQL without adding it to PATH.
var folders = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// tools are the programs of one PostgreSQL installation.
type tools struct{ postgres, initdb, psql string }

// findTools looks for a folder with postgres, initdb and psql: first on PATH, then in
// folders, and there the highest version first. psql may be elsewhere on PATH.
func findTools(folders []string) (tools, error) {
	if os.Getenv(Env) == None {
		return tools{}, errMissing("skipped: this test needs PostgreSQL, and " + Env +
			" says that there is none")
	}
	var dirs []string
	if p, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
		dirs = append(dirs, filepath.Dir(p))
	}
	for _, pattern := range folders {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return tools{}, err
		}
		slices.SortFunc(found, func(a, b string) int { return cmp.Compare(version(b), version(a)) })
		dirs = append(dirs, found...)
	}
	for _, dir := range dirs {
		found := tools{
			filepath.Join(dir, "postgres"), filepath.Join(dir, "initdb"),
			filepath.Join(dir, "psql"),
		}
		if !isProgram(found.psql) {
			found.psql, _ = exec.LookPath("psql") // checked below
		}
		if isProgram(found.postgres) && isProgram(found.initdb) && found.psql != "" {
			return found, nil
		}
	}
	return tools{}, errMissing(fmt.Sprintf(
		"skipped: this test needs PostgreSQL, and there is no postgres with initdb and psql on "+
			"PATH or in %s; install it, or set %s to the URL of a server",
		strings.Join(folders, ", "), Env))
}

var number = regexp.MustCompile(`\d+(\.\d+)?`)

// version returns the last number in a path, which is the version of the programs in it. It
// returns 0 if there is no number.
func version(path string) float64 {
	all := number.FindAllString(path, -1)
	if len(all) == 0 {
		return 0
	}
	v, err := strconv.ParseFloat(all[len(all)-1], 64)
	if err != nil {
		return 0
	}
	return v
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// psqlAlone finds a psql for a server that this package did not start.
func psqlAlone() (string, error) {
	if p, err := exec.LookPath("psql"); err == nil {
		return p, nil
	}
	b, err := findTools(folders)
	if err != nil {
		return "", fmt.Errorf("with %s, databases are created by psql, and there is none", Env)
	}
	return b.psql, nil
}

// psql runs one statement. Variables such as PGPASSWORD only have an effect if env contains
// them.
func psql(program string, env []string, at, statement string) error {
	cmd := exec.Command(program, "-X", "-q", "-w", "-v", "ON_ERROR_STOP=1", "-d", at, "-c",
		statement)
	cmd.Env = append(env, "PGCONNECT_TIMEOUT=30")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("psql, %s: %w: %s", statement, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// plainEnv returns the environment without the variables that change how PostgreSQL works.
func plainEnv() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "PG") || strings.HasPrefix(v, "LC_") ||
			strings.HasPrefix(v, "LANG")
	})
	return append(env, "LC_ALL=C", "TZ=UTC")
}
