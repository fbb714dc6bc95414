package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/examples/internal/terminal"
	"github.com/perdure/perdure/examples/onboarding/staff"
	"github.com/perdure/perdure/perduretest"
)

func TestMain(m *testing.M) { terminal.Main(m, main) }

// spec
func TestTheLedgerIsRightAfterKills(t *testing.T) {
	told := terminal.Open(t).Run("-count", "60", "-kills", "3", "-seed", "7")
	for _, want := range []string{
		"60 runs have ended, over 3 kills\n", "hired COMPLETED:", "rejected COMPENSATED:",
		"late COMPENSATED:", "unfit COMPENSATED:", "lacking COMPENSATED:",
	} {
		if !strings.Contains(told, want) {
			t.Errorf("it told %q, which has no %q", told, want)
		}
	}
	if n := strings.Count(told, "true   "); n != 5 {
		t.Errorf("%d checks are true: %s", n, told)
	}
}

func TestTheDiagramOfTheReadmeIsCurrent(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	m, _ := staff.Onboard(nil)
	if err := perdure.Check(m); err != nil {
		t.Error(err)
	}
	if want := "```mermaid\n" + m.Diagram().Mermaid() + "```\n"; !strings.Contains(
		string(text), want) {
		t.Errorf("the README does not have\n%s", want)
	}
}

// A team is an office with a list of what it has done.
type team struct {
	mu   sync.Mutex
	did  []string
	keys map[string]bool
}

func (d *team) do(key, what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.keys[key] {
		d.keys[key] = true
		d.did = append(d.did, what)
	}
}

func (d *team) Give(_ context.Context, key, name, thing string) (bool, error) {
	if thing == "laptop" && name == "lacking" {
		return false, nil
	}
	d.do(key, thing)
	return true, nil
}

func (d *team) Take(_ context.Context, key, _, thing string) error {
	d.do(key, "-"+thing)
	return nil
}

func (d *team) Check(_ context.Context, name string) (bool, error) { return name != "unfit", nil }

// spec
func TestEveryOnboardingBearsCrashesEverywhere(t *testing.T) {
	for _, f := range fates {
		t.Run(f.name, func(t *testing.T) {
			d := &team{}
			m, check := staff.Onboard(d)
			perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
				d.did, d.keys = nil, map[string]bool{}
				run := perduretest.Start(env, m.Workflow, staff.Hire{
					Name: f.name, Within: time.Hour,
				}, perdure.ID("x"))
				env.Settle()
				_ = env.Do(func(eng *perdure.Engine) error { // the journal shows whether it counts
					_, err := approval.Decide(env.Context(), eng, "x", "start", f.decision)
					return err
				})
				_, err := run.Result()
				run.Is(f.end)
				var given, taken []string
				for _, what := range d.did {
					if thing, back := strings.CutPrefix(what, "-"); back {
						taken = append(taken, thing)
					} else {
						given = append(given, thing)
					}
				}
				if sorted(given) != f.given || sorted(taken) != f.taken {
					t.Errorf("given %q, taken %q", given, taken)
				}
				if err == nil {
					return nil
				}
				if last := len(d.did) - 1; d.did[last] != "-account" ||
					slices.Index(d.did, "account") != 0 {
					t.Errorf("it did %q", d.did)
				}
				return err.Error()
			}, m, check)
		})
	}
}
