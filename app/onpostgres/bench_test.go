package onpostgres

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/testpg"
)

// logged matches a line of the log of an engine, which goes to stderr.
var logged = regexp.MustCompile(`(?m)^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d (INFO|WARN) .*\n`)

// A bench on a server makes databases there, and drops them.
//
// spec: P-2
func TestBenchOnPostgreSQL(t *testing.T) {
	url := testpg.URL(t)
	for _, flags := range []string{
		"--workload sequential --runs 20 --in-flight 4", "--workload resume --steps 200",
		"--workload signals --runs 20", "--runs 5 --keep",
	} {
		r := perdure.run(t, append([]string{"bench", "--store", url},
			strings.Fields(flags)...)...)
		if r.Code != exitOK || logged.ReplaceAllString(r.Stderr, "") != "" {
			t.Fatalf("%s: exit code %d: %s", flags, r.Code, r.Stderr)
		}
		var report struct {
			Store string
			Bytes float64        `json:"bytes_per_step"`
			Floor map[string]any `json:"floor"`
		}
		if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil {
			t.Fatal(err)
		}
		_, synced := report.Floor["fdatasync_per_s"]
		if steps, _ := report.Floor["steps_per_s"].(float64); steps <= 0 || synced ||
			report.Bytes <= 0 {
			t.Errorf("%s: %s", flags, r.Stdout)
		}
		left := perdure.run(t, "db", "status", "--store", report.Store)
		if !strings.HasSuffix(flags, "--keep") {
			left.Refused(t, exitUnreachable, "does not exist")
			continue
		}
		if left.Code != exitOK {
			t.Errorf("%s: %+v", flags, left)
		}
		_, name, _ := strings.Cut(report.Store, "/perdure_bench_")
		name, _, _ = strings.Cut(name, "?")
		testpg.Execute(t, url, "drop database perdure_bench_"+name)
	}
	if r := perdure.run(t, "runs", "list", "--store", url); r.Code != exitUnreachable ||
		!strings.Contains(r.Stderr, "there is no schema perdure in it") {
		t.Errorf("the database that it named has %+v", r)
	}
}
