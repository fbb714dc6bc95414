package replay

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
)

var update = flag.Bool("update", false, "write golden journals that are missing; those that are "+
	"there are kept for ever")

// golden has one of everything that a journal of this version can have. It is never changed:
// testdata/journals has its journal.
func golden(ctx context.Context, in string) (string, error) {
	out := in
	note := func(s string, err error) {
		if err != nil {
			s = "! " + err.Error()
		}
		out += "; " + s
	}
	give := func(s string, d time.Duration) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			_, err := world.Work(s, d, nil)(ctx)
			return s, err
		}
	}
	note(perdure.Step(ctx, "plain", give("plain", 0)))
	note(perdure.Step(ctx, "plain", give("again", 0)))
	note(perdure.Step(ctx, "keyed", give("keyed", 0), perdure.Key("k"), pattern.Announced))
	note(perdure.Step(ctx, "retried", func(ctx context.Context) (string, error) {
		v, err := perdure.Once(ctx, "kept", func() (string, error) { return "kept", nil })
		if n, _, _ := perdure.Attempt(ctx); n < 3 {
			return "", errors.Join(err, errSoldOut)
		}
		return v, err
	}))
	_, err := perdure.Step(ctx, "failed", func(context.Context) (string, error) {
		return "", perdure.Permanent(&cardError{"1", "no"})
	})
	var card *cardError
	if errors.As(err, &card) {
		note(card.Reason, nil)
	}
	_, err = perdure.Step(ctx, "late", give("late", time.Hour), perdure.Timeout(time.Second),
		perdure.NoRetry)
	note("", err)
	slow, fast := perdure.Async(ctx, "race", give("slow", time.Hour)),
		perdure.Async(ctx, "race", give("fast", time.Second))
	if i, err := perdure.Any(ctx, nil, slow, fast); i != 1 || err != nil {
		note("", errors.New("the wrong one won"))
	}
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	_, err = slow.Await(short)
	cancel()
	note("", err)
	if _, err := slow.Cancel(ctx, "lost"); err != nil {
		note("", err)
	}
	within, err := perdure.Scope(ctx, "scope")
	note("scope", err)
	note(perdure.Step(within, "plain", give("inner", 0)))
	var found []string
	var asked []*perdure.Future[string]
	for _, d := range []time.Duration{3, 1, 2} {
		asked = append(asked, perdure.Go(ctx, "branch", func(ctx context.Context) (string, error) {
			v, err := perdure.Step(ctx, "ask", give("asked", d*time.Second))
			found = append(found, d.String())
			return v, err
		}))
	}
	for f, err := range perdure.AsCompleted(ctx, asked...) {
		if err != nil {
			return "", err
		}
		note(f.Await(ctx))
	}
	lost := perdure.Go(ctx, "lost", func(ctx context.Context) (string, error) {
		return perdure.Step(ctx, "long", give("long", time.Hour))
	})
	note(perdure.Step(ctx, "meanwhile", give("meanwhile", time.Second)))
	if _, err := lost.Cancel(ctx, "not needed"); err != nil {
		note("", err)
	}
	for _, f := range found {
		note(f, nil)
	}
	perdure.Async(ctx, "open", give("open", time.Hour))
	note(perdure.Step(ctx, "last", give("last", time.Second)))
	return out, nil
}

// Journals of every version are replayed by this one, from every prefix without an undecided
// operation, and have the same results.
//
// spec: B-1, P-14
func TestGoldenJournalsReplay(t *testing.T) {
	dir := filepath.Join("testdata", "journals")
	wf := perdure.Define("golden", golden)
	if *update {
		writeGolden(t, wf, filepath.Join(dir, "v1.jsonl"))
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatal("no golden journals", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := journal.Read(bytes.NewReader(data))
		if err != nil {
			t.Fatal(file, err)
		}
		last := entries[len(entries)-1]
		synctest.Test(t, func(t *testing.T) {
			// what follows the last result of the workflow's own is the end
			for n := len(entries) - 3; n < len(entries); n++ {
				if out,
					_ := replayed(t, wf, "golden", entries[:n]); string(out) != string(last.Data) {
					t.Errorf("%s, the first %d entries: %s, want %s", file, n, out, last.Data)
				}
			}
		})
	}
}

// writeGolden records a journal, unless there is one.
func writeGolden(t *testing.T, wf *perdure.Workflow[string, string], file string) {
	if _, err := os.Stat(file); err == nil {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, wf)
		defer w.End()
		run, out, err := world.Result(w, wf, "in")
		if err != nil {
			t.Fatal(err)
		}
		t.Log(out)
		var b bytes.Buffer
		if err := journal.Write(&b, w.History(run.ID())); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	})
}
