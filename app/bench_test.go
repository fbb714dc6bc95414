package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/place"
)

// always has the keys that every report has.
var always = []string{
	"workload", "store", "runs", "steps", "in_flight", "payload", "seconds", "runs_per_s",
	"steps_per_s",
	"p50_ms", "p99_ms", "cpu_s", "rss_mb", "commits", "bytes_per_step", "floor", "ratio_steps",
	"ratio_p50",
}

func TestBench(t *testing.T) {
	for _, c := range []struct {
		flags string
		keys  []string
	}{
		{"--workload sequential --runs 20 --in-flight 4", nil},
		{"--workload latency --runs 3 --steps 2 --payload 1", nil},
		{"--workload fanout --steps 5", []string{"fanout_ms", "repeats"}},
		{"--workload resume --steps 400", []string{"resume_s", "first_step_ms", "last_step_ms"}},
		{
			"--workload sleepers --runs 30 --idle 10ms",
			[]string{
				"rss_growth_mb", "goroutines", "idle_queries_per_min", "wake_per_s", "ends_per_s",
			},
		},
		{"--workload signals --runs 20", []string{"signals_per_s", "send_p99_ms"}},
		{"--workload timers --runs 20", []string{"late_p99_ms", "late_max_ms", "early"}},
	} {
		for _, store := range []string{
			"memory:", "sqlite:" + filepath.Join(t.TempDir(), "bench.db"),
		} {
			t.Run(c.flags+" "+store[:6], func(t *testing.T) {
				r := perdureCommand(t, append([]string{"bench", "--store", store},
					strings.Fields(c.flags)...)...)
				if r.code != exitOK || r.stderr != "" {
					t.Fatalf("exit code %d: %s", r.code, r.stderr)
				}
				report := map[string]any{}
				if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
					t.Fatal(err)
				}
				for _, key := range append(c.keys, always...) {
					if _, there := report[key]; !there {
						t.Errorf("no %s in %s", key, r.stdout)
					}
				}
				compared(t, report, store == "memory:")
			})
		}
	}
}

// compared checks the part of a report about the floor.
func compared(t *testing.T, report map[string]any, inMemory bool) {
	t.Helper()
	floor, there := report["floor"].(map[string]any)
	if there == inMemory {
		t.Fatalf("the floor is %v", report["floor"])
	}
	if inMemory {
		return
	}
	for _, key := range []string{"steps_per_s", "p50_ms", "fdatasync_per_s", "fdatasync_p50_ms"} {
		if v, _ := floor[key].(float64); v <= 0 {
			t.Errorf("floor.%s is %v", key, floor[key])
		}
	}
	sameShape := report["workload"] == "sequential" || report["workload"] == "latency"
	for _, key := range []string{"ratio_steps", "ratio_p50"} {
		if v, _ := report[key].(float64); (v > 0) != sameShape {
			t.Errorf("%s is %v", key, report[key])
		}
	}
	if v, _ := report["bytes_per_step"].(float64); v <= 0 {
		t.Errorf("bytes_per_step is %v", report["bytes_per_step"])
	}
}

func TestBenchFiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "bench.db")
	bench := func(flags ...string) result {
		return perdureCommand(t, append([]string{
			"bench", "--workload", "latency", "--runs", "2", "--store", "sqlite:" + file,
		}, flags...)...)
	}
	left := func() int {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	if r := bench("-o", "text"); r.code != exitOK ||
		!strings.Contains(r.stdout, "\nfloor.steps_per_s ") || left() != 0 {
		t.Errorf("plain: %+v leaves %d files", r, left())
	}
	write(t, file)
	bench().refused(t, exitConflict, "is there already")
	if left() != 1 {
		t.Errorf("refused: %d files", left())
	}
	if r := bench("--force", "--keep"); r.code != exitOK || left() == 0 {
		t.Errorf("--force --keep: %+v leaves %d files", r, left())
	}
	if r := bench("--force"); r.code != exitOK || left() != 0 {
		t.Errorf("--force: %+v leaves %d files", r, left())
	}
}

func TestBenchUnreachable(t *testing.T) {
	r := perdureCommand(t, "bench", "--store", "sqlite:"+filepath.Join(t.TempDir(), "no",
		"bench.db"))
	r.refused(t, exitUnreachable, "open the store")
}

func TestBenchTemporaryFile(t *testing.T) {
	t.Chdir(t.TempDir())
	if r := perdureCommand(t, "bench", "--workload", "latency", "--runs", "2"); r.code != exitOK {
		t.Errorf("%+v", r)
	}
	if entries, err := os.ReadDir("."); err != nil || len(entries) > 0 {
		t.Errorf("it leaves %v, %v", entries, err)
	}
}

// Others may use the file that the variable names: --force does not replace it.
func TestBenchLeavesAloneWhatTheVariableNames(t *testing.T) {
	file := filepath.Join(t.TempDir(), "orders.db")
	write(t, file)
	t.Setenv(place.Env, file)
	perdureCommand(t, "bench", "--runs", "2", "--force").refused(t, exitConflict,
		"is there already")
	if data, err := os.ReadFile(file); err != nil || string(data) != "mine" {
		t.Errorf("%q, %v", data, err)
	}
}
