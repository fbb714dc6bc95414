package app

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/app/internal/scripted"
	"github.com/perdure/perdure/store/sqlite"
)

// An engine of a program of its own need not execute batches. The command that starts one notes it.
//
// spec: B-8
func TestABatchThatNoEngineExecutesIsNoted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "perdure.db")
	failRuns(t, file, 2)
	s, err := sqlite.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	eng, err := perdure.New(s, perdure.Options{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = eng.Register(scripted.Workflows...)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- eng.Run(ctx) }()
	_, err = eng.Start(ctx, "greet", []byte(`"ada"`)) // the engine has the file from then on
	if err != nil {
		t.Fatal(err)
	}
	r := perdureCommand(t, "runs", "retry", "--filter", "workflow=refuse", "--yes", "--store", file)
	want := "no engine has workflow perdure.batch: nothing is done with the run until one has"
	if r.code != exitOK || !strings.Contains(r.stderr, want) {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
	stop()
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
}
