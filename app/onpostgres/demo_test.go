package onpostgres

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/perdure/perdure/app/internal/demo"
	"github.com/perdure/perdure/internal/testpg"
)

// Several workers share the runs on a PostgreSQL. Some are killed, and one is paused for
// longer than its lease. Other workers take over their runs. No run is lost, and no effect
// happens twice.
//
// spec: B-5, P-2
func TestDemoOfACluster(t *testing.T) {
	url, dir := testpg.URL(t), t.TempDir()
	t.Cleanup(func() { dropDemos(t, url, dir) })
	args := []string{
		"demo", "--once", "--cluster", "3", "--kills", "2", "--seed", "5", "--dir", dir, "--store",
		url,
	}
	r := perdure.run(t, args...)
	if r.Code != exitOK || r.Stderr != "" || strings.Contains(r.Stdout, "✗ (") {
		t.Fatalf("exit code %d: %s\n%s", r.Code, r.Stderr, r.Stdout)
	}
	want := []string{
		"2 kills, ", ", 3 nodes", "(PostgreSQL)", "each dead or paused node taken over ✓",
		"was done by another after ", "before another has it: perdure runs get ",
	}
	if runtime.GOOS != "windows" {
		want = append(want, "paused (SIGSTOP)", "goes on (SIGCONT)", "2 kills, 1 pause ✓")
	}
	for _, words := range want {
		if !strings.Contains(r.Stdout, words) {
			t.Errorf("it does not say %q:\n%s", words, r.Stdout)
		}
	}
	calls, err := demo.ReadLedger(filepath.Join(dir, "ledger.jsonl"))
	keys := map[string]bool{}
	for _, c := range calls {
		keys[c.Key] = true
	}
	if err != nil || len(keys) == len(calls) {
		t.Errorf("no call was repeated: %d calls, %v", len(calls), err)
	}
	database := demoDatabases(t, dir)[0]
	left := perdure.run(t, "runs", "get", "exp-9", "--store",
		strings.Replace(url, path.Base(strings.Split(url, "?")[0]), database, 1))
	if left.Code != exitOK || !strings.Contains(left.Stdout, "WAITING") {
		t.Errorf("it has left %+v", left)
	}
	perdure.run(t, "runs", "list", "--store", url).Refused(t, exitUnreachable,
		"there is no schema perdure in it")

	// The next demo drops the database of this one. One worker can use a server too.
	r = perdure.run(t, "demo", "--once", "--kills", "1", "--seed", "5", "--dir", dir, "--store",
		url)
	if r.Code != exitOK {
		t.Errorf("one worker: exit code %d: %s\n%s", r.Code, r.Stderr, r.Stdout)
	}
	if now := demoDatabases(t, dir); len(now) != 1 || now[0] == database {
		t.Errorf("databases %v after %s", now, database)
	}
}

// demoDatabases returns the databases on servers that the mark of the demo in dir has.
func demoDatabases(t *testing.T, dir string) []string {
	t.Helper()
	var mark struct{ Databases []string }
	data, err := os.ReadFile(filepath.Join(dir, "demo.json"))
	if err == nil {
		err = json.Unmarshal(data, &mark)
	}
	if err != nil || len(mark.Databases) == 0 {
		t.Fatalf("databases %v, %v", mark.Databases, err)
	}
	return mark.Databases
}

func dropDemos(t *testing.T, url, dir string) {
	t.Helper()
	for _, name := range demoDatabases(t, dir) {
		testpg.Execute(t, url, "drop database if exists "+name+" with (force)")
	}
}
