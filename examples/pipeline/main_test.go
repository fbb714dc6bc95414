package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/examples/internal/terminal"
	"github.com/perdure/perdure/examples/pipeline/daily"
	"github.com/perdure/perdure/perduretest"
)

func TestMain(m *testing.M) { terminal.Main(m, main) }

const day = "2026-01-31"

func deliver(t testing.TB, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name+"-"+day+".csv"), []byte(text),
		0o644); err != nil {
		t.Fatal(err)
	}
}

// spec: P-4, F-20
func TestTheReportIsMadeOfWhatCameLate(t *testing.T) {
	dir := t.TempDir()
	deliver(t, dir, "sales", "cup,3\npot,1\n")
	deliver(t, dir, "stock", "cup,10\npot,5\n")
	if err := run(dir, day, false); err == nil ||
		!strings.Contains(err.Error(), "step read-returns failed") {
		t.Errorf("without a file it ends with %v", err)
	}
	deliver(t, dir, "returns", "cup,1\n")
	told := terminal.Open(t).Run("-dir", dir, "-retry")
	for _, want := range []string{
		"dead letter: read-returns failed", "reading returns", "writing the report",
		`join DONE {"cup":8,"pot":4}`,
	} {
		if !strings.Contains(told, want) {
			t.Errorf("it told %q, which has no %q", told, want)
		}
	}
	for _, done := range []string{"reading sales", "reading stock"} {
		if strings.Contains(told, done) {
			t.Errorf("it told %q: what was done is done again", told)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, day+".json")); err != nil ||
		string(text) != `{"cup":8,"pot":4}` {
		t.Errorf("the report is %s, %v", text, err)
	}
}

func TestTheReportBearsCrashesEverywhere(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"sales", "returns", "stock"} {
		deliver(t, dir, name, "cup,3\n")
	}
	report := daily.Report(folder(dir))
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		run := perduretest.Start(env, report.Workflow, day)
		left, err := run.Result()
		return []any{string(left), err}
	}, report)
}

func TestALineWithoutANumberIsNotReadAgain(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"sales", "returns", "stock"} {
		deliver(t, dir, name, "cup,many\n")
	}
	report := daily.Report(folder(dir))
	perduretest.Test(t, func(env *perduretest.Env) {
		ctx, stop := context.WithTimeout(env.Context(), time.Hour)
		defer stop()
		r, err := report.Execute(ctx, env.Engine(), day, perdure.ID(day))
		if err != nil || r.Status != perdure.StatusFailed || r.Retries() != 0 {
			t.Errorf("it is %v after %d retries, %v", r.Status, r.Retries(), err)
		}
	}, report)
}
