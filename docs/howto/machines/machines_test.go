package howto

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/perduretest"
)

// outcomes starts a claim of each kind as a workflow, and returns what becomes of them.
func outcomes[O any](t *testing.T, w *perdure.Workflow[Claim, O]) (all []string) {
	t.Helper()
	for _, c := range []struct {
		claim    Claim
		approved bool
		days     time.Duration
	}{
		{Claim{"ann", 50_00}, false, 0}, {Claim{"ann", 500_00}, true, 1},
		{Claim{"ann", 500_00}, false, 1}, {Claim{"ann", 500_00}, true, 4}, {Claim{"", 1}, true, 0},
	} {
		perduretest.Test(t, func(env *perduretest.Env) {
			run := perduretest.Start(env, w, c.claim, perdure.ID("c"))
			env.Sleep(c.days * day)
			if c.days > 0 {
				if err := env.Do(func(eng *perdure.Engine) error {
					_, err := approval.Decide(env.Context(), eng, "c", "claim", approval.Decision{
						Approved: c.approved, By: "bob", Role: "manager",
					})
					return err
				}); err != nil {
					t.Fatal(err)
				}
			}
			out, err := run.Result()
			data, e := json.Marshal(out)
			if err != nil || e != nil {
				data = []byte("failed")
			}
			all = append(all, string(data))
		}, w)
	}
	return all
}

func TestTheMachineAndTheCodeDoTheSame(t *testing.T) {
	want := []string{
		`{"who":"ann","cents":5000}`, `{"who":"ann","cents":50000}`, `{"who":"ann","cents":0}`,
		`{"who":"ann","cents":50000}`, "failed",
	}
	machine, code := outcomes(t, Claims.Workflow), outcomes(t, AsCode)
	for i := range want {
		if machine[i] != want[i] || code[i] != want[i] {
			t.Errorf("claim %d: %s by the machine, %s by the code, want %s", i, machine[i], code[i],
				want[i])
		}
	}
}

func TestTheDiagramOfThePage(t *testing.T) {
	const want = `stateDiagram-v2
    state "check" as s0
    state "pay (undo)" as s1
    state "ask" as s2
    state "mail" as s3
    state "refuse" as s4
    state "remind" as s5
    [*] --> s0
    s0 --> s1
    s0 --> s2
    s1 --> s3
    s2 --> s1
    s2 --> s4
    s2 --> s5
    s3 --> [*]
    s4 --> [*]
    s5 --> s2
`
	if got := Claims.Diagram().Mermaid(); got != want {
		t.Errorf("it is\n%s", got)
	}
}

func TestAnImportHandsOver(t *testing.T) {
	perduretest.Test(t, func(env *perduretest.Env) {
		perduretest.Start(env, Import.Workflow, 7).Returns([]byte("7"))
	}, Import)
}
