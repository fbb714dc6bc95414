package pattern_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/report"
)

var errStuck = errors.New("stuck")

// A bench has the effects of runs that do the steps a, b[1], b[2] and c, and undo them twice.
type bench struct {
	mu    sync.Mutex // a process that dies may still do something
	first string     // the compensation that fails first
	bad   string     // the same, until it is mended
	parks bool
	ran   []string // the compensations that have succeeded, in order, each once
}

func (b *bench) mend() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bad = ""
}

func (b *bench) workflow() *perdure.Workflow[int, string] {
	return perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		back := pattern.Rollback{Parks: b.parks}
		for _, id := range []string{"a", "b[1]", "b[2]", "c"} {
			name, key, _ := strings.Cut(strings.TrimSuffix(id, "]"), "[")
			opts := []perdure.StepOption{}
			if key != "" {
				opts = append(opts, perdure.Key(key))
			}
			if err := perdure.Do(ctx, name, func(context.Context) error { return nil },
				opts...); err != nil {
				return "", err
			}
			back.Done(pattern.Undo{Name: name, Key: key, Call: func(ctx context.Context,
				given pattern.Sources) (json.RawMessage, error) {
				b.mu.Lock()
				defer b.mu.Unlock()
				if id == b.bad {
					return nil, errStuck
				}
				if last, found := given.Undone("c"); id != "c" && b.first != "c" &&
					(!found || string(last) != `"c"`) {
					return nil, fmt.Errorf("c is not undone: %s", last)
				}
				if !slices.Contains(b.ran, id) {
					b.ran = append(b.ran, id)
				}
				return json.Marshal(id)
			}})
		}
		if err := back.Run(ctx); err != nil {
			return "", err
		}
		first, failed := back.Open(), back.Failed()
		if err := perdure.Sleep(ctx, time.Hour); err != nil {
			return "", err
		}
		if err := back.Run(ctx); err != nil {
			return "", err
		}
		return fmt.Sprint(first, failed, back.Open(), back.Failed()), nil
	}, perdure.Timeout(10*time.Minute))
}

// spec: R-9
func TestARollbackGoesOnWithTheRest(t *testing.T) {
	for _, bad := range []string{"a", "b[1]", "b[2]", "c"} {
		for _, choice := range []string{"", "retry", "skip", "handled"} {
			t.Run(bad+choice, func(t *testing.T) {
				b := &bench{parks: choice != ""}
				w := b.workflow()
				perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
					b.mu.Lock()
					b.first, b.bad, b.ran = bad, bad, nil
					b.mu.Unlock()
					run := perduretest.Start(env, w, 0)
					env.Sleep(30 * time.Minute) // the timeout has no effect in a rollback
					if choice != "" {
						run.Is(journal.CompensationFailed)
						decide(env, run.ID(), bad, choice, b.mend)
					} else {
						run.Is(journal.Compensating)
					}
					b.mend()
					out, err := run.Result()
					if err != nil {
						env.Fatal(err)
					}
					want := "0 <nil> 0 <nil>"
					all := []string{"c", "b[2]", "b[1]", "a"}
					switch choice {
					case "", "skip": // what was left comes in the second run
						all = append(slices.DeleteFunc(all,
							func(id string) bool { return id == bad }), bad)
					case "handled":
						all = slices.DeleteFunc(all, func(id string) bool { return id == bad })
					}
					if choice == "" || choice == "skip" {
						want = "1 step " + bad + " could not be undone: stuck 0 <nil>"
					}
					b.mu.Lock()
					defer b.mu.Unlock()
					if out != want || !slices.Equal(b.ran, all) {
						env.Errorf("it is %q, undone %q; want %q, %q", out, b.ran, want, all)
					}
					for _, s := range run.Report().Steps {
						if s.Status != report.StepIsCompensated {
							env.Errorf("the report has %s as %v", s.ID, s.Status)
						}
					}
					return out
				}, w)
			})
		}
	}
}

// decide checks how the only parked run stands, mends it, and decides.
func decide(env *perduretest.Env, id, bad, choice string, mend func()) {
	var parked []admin.Parked
	if err := env.Do(func(eng *perdure.Engine) (err error) {
		parked, _, err = admin.New(eng).Parked(env.Context(), journal.Cursor{}, 0)
		return err
	}); err != nil || len(parked) != 1 || len(parked[0].Decisions) != 1 {
		env.Fatalf("parked are %+v, %v", parked, err)
	}
	left := 1 + slices.Index([]string{"a", "b[1]", "b[2]", "c"}, bad)
	if why := fmt.Sprintf("rollback incomplete: %d not yet undone: step %s could not be undone: ",
		left, bad); !strings.HasPrefix(parked[0].Why, why) {
		env.Errorf("it is parked because of %q, not %q", parked[0].Why, why)
	}
	mend()
	if err := env.Do(func(eng *perdure.Engine) error {
		return eng.Decide(env.Context(), id, parked[0].Decisions[0].Path,
			perdure.Decision{Choice: choice})
	}); err != nil {
		env.Error(err)
	}
}
