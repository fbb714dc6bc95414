// Package scripted has the workflows of the program that the scripts in the folder testdata of
// package app run.
package scripted

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/callback"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/machine"
	"github.com/perdure/perdure/steplog"
	"github.com/perdure/perdure/stream"
	"github.com/perdure/perdure/update"
)

// Workflows are the workflows of that program.
var Workflows = []perdure.Definition{
	perdure.Define("greet", func(ctx context.Context, name string) (string, error) {
		return perdure.Step(ctx, "write", func(context.Context) (string, error) {
			return "Hello, " + name, nil
		})
	}, perdure.About{Version: "1.2", Description: "Says hello"}),
	perdure.Define("refuse", func(ctx context.Context, why string) (string, error) {
		return perdure.Step(ctx, "try", func(context.Context) (string, error) {
			return "", errors.New(why)
		}, perdure.NoRetry)
	}),
	perdure.Define("lose", func(ctx context.Context, what string) (string, error) {
		return perdure.Step(ctx, "find", func(context.Context) (string, error) {
			return "", errors.New(what + " is lost")
		}, perdure.NoRetry)
	}, deadletter.Automatic(true)),
	perdure.Define("await", func(ctx context.Context, _ string) (string, error) {
		return perdure.NewSignal[string]("go").Wait(ctx)
	}),
	perdure.Define("sale", func(ctx context.Context, n int) (int, error) {
		best := 0
		for range n {
			ask, err := update.New[int, string]("raise", nil).Wait(ctx)
			if err != nil {
				return 0, err
			}
			if ask.Value <= best {
				err = ask.Refuse(ctx, fmt.Errorf("%d is not above %d", ask.Value, best))
			} else {
				best = ask.Value
				err = ask.Reply(ctx, fmt.Sprint("best is ", best))
			}
			if err != nil {
				return 0, err
			}
		}
		return best, nil
	}),
	perdure.Define("signoff", func(ctx context.Context, key string) (string, error) {
		out, err := approval.Wait(ctx, approval.Ask{
			Key: key, Title: "30 % off", Role: "manager", Quorum: 2, Form: percent{},
			Within: 24 * time.Hour,
		})
		return string(out.Status), err
	}),
	perdure.Define("park", func(ctx context.Context, why string) (string, error) {
		d, err := perdure.Park(ctx, "bank", why, "retry", "skip")
		return d.Choice, err
	}),
	perdure.Define("ask", func(ctx context.Context, why string) (string, error) {
		d, err := perdure.Park(ctx, "anything", why)
		return d.Choice, err
	}),
	// The errors of the next two workflows have codes of their own.
	perdure.Define("misuse", func(ctx context.Context, _ int) (int, error) {
		return 0, perdure.Fail(ctx, &perdure.Error{
			Code: journal.CodeInvalid, Message: "a bad step", Err: context.Canceled,
		})
	}),
	perdure.Define("orphan", func(ctx context.Context, _ int) (int, error) {
		return 0, &perdure.Error{Code: journal.CodeCancelled, Message: "its child was cancelled"}
	}),
	perdure.Define("twice", func(ctx context.Context, n int) (int, error) {
		if n > 0 {
			return n, perdure.ContinueAsNew(ctx, n-1)
		}
		return n, nil
	}),
	perdure.Define("stubborn", func(ctx context.Context, _ int) (int, error) {
		return perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
			fmt.Println("it has begun")
			<-ctx.Done()
			return 0, ctx.Err()
		})
	}),
	perdure.Define("sleep", func(ctx context.Context, _ int) (int, error) {
		return 0, perdure.Sleep(ctx, 30*24*time.Hour)
	}),
	perdure.Define("changed", func(ctx context.Context, stay bool) (int, error) {
		v, err := perdure.Version(ctx, "pay-first", 2)
		if err != nil || !stay {
			return v, errors.Join(err, errors.New("it fails"))
		}
		return v, perdure.Sleep(ctx, 30*24*time.Hour)
	}),
	perdure.Define("paid", func(ctx context.Context, file string) (json.RawMessage, error) {
		w, err := callback.New[json.RawMessage](ctx, "card", perdure.Within(time.Hour))
		if err != nil {
			return nil, err
		}
		if err := perdure.Do(ctx, "ask", func(ctx context.Context) error {
			text, err := w.Token(ctx)
			if err != nil {
				return err
			}
			if err := os.WriteFile(file+".part", []byte(text), 0o600); err != nil {
				return err
			}
			return os.Rename(file+".part", file)
		}); err != nil {
			return nil, err
		}
		return w.Await(ctx)
	}),
	// Its first attempt fails after it has said something.
	perdure.Define("talk", func(ctx context.Context, name string) (string, error) {
		return perdure.Step(ctx, "say", func(ctx context.Context) (string, error) {
			n, _, err := perdure.Attempt(ctx)
			if err != nil {
				return "", err
			}
			steplog.Logger(ctx).Info("it speaks", "to", name)
			err = stream.New[string]("words").Append(ctx, fmt.Sprint("Hello ", n))
			if n == 1 {
				return "", errors.New("a cough")
			}
			return "said", err
		}, perdure.Retry{Attempts: 2, First: time.Millisecond, Factor: 1}, steplog.Keep{})
	}),
	claim(),
	gated("waited", dag.Sync),
	gated("unwaited", dag.Async),
}

// claim is a machine that rejects claims above 100, and wants a look at those above 50.
func claim() *machine.Machine[int] {
	m := machine.New[int]("claim", "check")
	machine.Add(m, "check", machine.Do(func(_ context.Context, n int) (int, error) {
		if n > 100 {
			return 0, fmt.Errorf("%d is too much", n)
		}
		return n, nil
	})).To("look", "pay").Route(func(r machine.Result) string {
		var n int
		if err := r.Decode(&n); err != nil || n > 50 {
			return "look"
		}
		return "pay"
	})
	machine.Add(m, "look", func(ctx context.Context, n int) (machine.Action, error) {
		if seen, err := perdure.NewSignal[bool]("seen").All(ctx); err != nil || len(seen) == 0 {
			return machine.Suspend(), err
		}
		return machine.Complete(n), nil
	}).To("pay")
	machine.Add(m, "pay", machine.Do(func(_ context.Context, n int) (string, error) {
		return fmt.Sprint("paid ", n), nil
	}))
	return m
}

// percent is a form for a number.
type percent struct{}

func (percent) Schema() json.RawMessage { return json.RawMessage(`{"type":"number"}`) }

func (percent) Check(data json.RawMessage) error {
	if string(data) == "null" {
		return errors.New("a number is needed")
	}
	return json.Unmarshal(data, new(int))
}

// gated returns a graph in this mode, whose runs wait for a signal.
func gated(name string, m dag.Mode) perdure.Definition {
	g := dag.New[string](name).Mode(m)
	return g.Output(dag.Add(g, "pass", func(context.Context, string) (string, error) {
		return "passed", nil
	}).WaitSignal("go", 0))
}
