package tcc_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/patterntest"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/tcc"
)

// one returns a TCC of two participants that note their calls.
func one(w *tour, name string) (*tcc.TCC[string], *tcc.Participant[string, string]) {
	d := tcc.New[string](name).Retry(perdure.NoRetry)
	var first *tcc.Participant[string, string]
	for _, id := range []string{"a", "b"} {
		p := tcc.Add(d, id, func(ctx context.Context, _ string) (string, error) {
			return w.act(ctx, "")
		}).
			Confirm(func(ctx context.Context, _ string, tried string) error {
				_, err := w.act(ctx, tried)
				return err
			}).
			Cancel(func(ctx context.Context, _ string, tried string) error {
				_, err := w.act(ctx, tried)
				return err
			})
		if first == nil {
			first = p
		}
	}
	return d, first
}

// spec: F-44
func TestTCCIsAPartOfAWorkflow(t *testing.T) {
	cases := map[string]struct {
		fails map[string]int
		when  string
		ends  string // the final status of a run that is told to end
		order []string
		gives string
	}{
		"confirmed": {
			nil,
			"",
			"",
			[]string{"try:one/a", "try:one/b", "confirm:one/a", "confirm:one/b"},
			"CONFIRMED <nil> of one/a true",
		},
		"canceled": {
			map[string]int{"try:one/b": 1},
			"",
			"",
			[]string{"try:one/a", "cancel:one/a"},
			"CANCELED try of b failed: odd of one/a true",
		},
		"failed": {map[string]int{"confirm:one/b": 1, "cancel:one/b": 1}, "", "",
			[]string{"try:one/a", "try:one/b", "confirm:one/a", "cancel:one/a"},
			"FAILED cancel of b failed: odd of one/a true"},
		"cancelled trying": {
			nil,
			"try:one/b",
			"CANCELLED",
			[]string{"try:one/a", "cancel:one/b", "cancel:one/a"},
			"",
		},
		"cancelled confirming": {
			nil,
			"confirm:one/b",
			"CANCELLED",
			[]string{"try:one/a", "try:one/b", "confirm:one/a", "confirm:one/b"},
			"",
		},
		"cancelled, unconfirmed": {map[string]int{"confirm:one/a": 1}, "confirm:one/b", "CANCELLED",
			[]string{"try:one/a", "try:one/b", "confirm:one/b", "cancel:one/b", "cancel:one/a"},
			""},
		"cancelled canceling": {
			map[string]int{"confirm:one/a": 1},
			"cancel:one/b",
			"CANCELLED",
			[]string{"try:one/a", "try:one/b", "confirm:one/b", "cancel:one/b", "cancel:one/a"},
			"",
		},
		"cancelled afterwards": {
			nil,
			"after",
			"CANCELLED",
			[]string{"try:one/a", "try:one/b", "confirm:one/a", "confirm:one/b"},
			"",
		},
		"failed, cancelled afterwards": {map[string]int{"confirm:one/b": 1, "cancel:one/b": 1},
			"after", "CANCELLED",
			[]string{"try:one/a", "try:one/b", "confirm:one/a", "cancel:one/a"}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := &tour{fails: c.fails, when: c.when}
			d, first := one(w, "one")
			wf := perdure.Define("outer", func(ctx context.Context, in string) (string, error) {
				e, err := d.Inline(ctx, in)
				if err != nil {
					return "", err
				}
				tried, found, err := first.In(e)
				if err != nil {
					return "", err
				}
				if _, err := perdure.Step(ctx, "after", func(ctx context.Context) (string, error) {
					if c.when != "after" {
						return "", nil
					}
					info, _ := perdure.StepOf(ctx)
					_ = w.env.Engine().Cancel(context.Background(), string(info.Run.ID), "enough")
					<-ctx.Done()
					return "", context.Cause(ctx)
				}); err != nil {
					return "", err
				}
				return fmt.Sprint(e.Status, " ", e.Err, " ", tried, " ", found), nil
			})
			perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
				w.env, w.order, w.keys, w.wrong = env, nil, map[string]string{}, nil
				run := perduretest.Start(env, wf, "x")
				out, err := run.Result()
				if c.ends == "" && (out != c.gives || err != nil) ||
					c.ends != "" && !errors.Is(err, &perdure.Error{Code: journal.CodeCancelled}) {
					env.Errorf("%q %v", out, err)
				}
				env.Settle()
				for _, bad := range w.wrong {
					env.Error(bad)
				}
				got, want := slices.Clone(w.order), slices.Clone(c.order)
				sortConfirms(got)
				sortConfirms(want)
				if !slices.Equal(got, want) {
					env.Errorf("done: %v\nwant: %v", got, want)
				}
				return fmt.Sprint(out, err)
			}, wf)
		})
	}
}

// sortConfirms sorts the confirms, which are executed at once.
func sortConfirms(order []string) {
	is := func(s string) bool { return len(s) > 7 && s[:7] == "confirm" }
	if i := slices.IndexFunc(order, is); i >= 0 {
		j := i
		for j < len(order) && is(order[j]) {
			j++
		}
		slices.Sort(order[i:j])
	}
}

// A run that ends while its TCC is in progress beside it carries the TCC to its end.
//
// spec: F-44
func TestTCCThatIsLeftBehindIsCalledOff(t *testing.T) {
	for name, fails := range map[string]bool{"returns": false, "fails": true} {
		t.Run(name, func(t *testing.T) {
			w := &tour{}
			d, _ := one(w, "one")
			wf := perdure.Define("outer", func(ctx context.Context, in string) (string, error) {
				perdure.Go(ctx, "beside", func(ctx context.Context) (string, error) {
					_, err := d.Inline(ctx, in, perdure.Key("k"))
					return "", err
				})
				if err := perdure.Sleep(ctx, 1500*time.Microsecond); err != nil || !fails {
					return "out", err
				}
				return "", errOdd
			})
			perduretest.Test(t, func(env *perduretest.Env) {
				w.env, w.keys = env, map[string]string{}
				w.when = "none"
				_, _ = perduretest.Start(env, wf, "x").Result()
				env.Sleep(time.Second)
				if got := of(w.order, "cancel"); !slices.Equal(got, []string{
					"cancel:beside/one[k]/b", "cancel:beside/one[k]/a",
				}) || len(w.wrong) > 0 {
					env.Errorf("%v %v", w.order, w.wrong)
				}
			}, wf)
		})
	}
}

// A TCC whose branch is cancelled is cancelled at once, while the run continues.
//
// spec: F-29, F-44
func TestTCCInABranchThatIsCancelledIsCalledOff(t *testing.T) {
	w := &tour{when: "none"}
	d, _ := one(w, "one")
	wf := perdure.Define("outer", func(ctx context.Context, in string) (string, error) {
		part := perdure.Go(ctx, "beside", func(ctx context.Context) (string, error) {
			_, err := d.Inline(ctx, in)
			return "", err
		})
		if err := perdure.Sleep(ctx, 1500*time.Microsecond); err != nil {
			return "", err
		}
		if _, err := part.Cancel(ctx, "enough"); err != nil {
			return "", err
		}
		return "out", perdure.Sleep(ctx, time.Hour)
	})
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		w.env, w.order, w.keys, w.wrong = env, nil, map[string]string{}, nil
		run := perduretest.Start(env, wf, "x")
		env.Sleep(time.Minute)
		if got := of(w.order, "cancel"); !slices.Equal(
			got, []string{"cancel:beside/one/b", "cancel:beside/one/a"}) || len(w.wrong) > 0 {
			env.Errorf("%v %v", w.order, w.wrong)
		}
		run.Returns("out")
		return nil
	}, wf)
}

// spec: F-8, F-44
func TestWrongTCCIsNoPartOfAWorkflow(t *testing.T) {
	d := tcc.New[string]("odd")
	tcc.Add(d, "a", func(context.Context, string) (string, error) { return "", nil })
	wf := perdure.Define("outer", func(ctx context.Context, in string) (string, error) {
		_, err := d.Inline(ctx, in)
		return "", err
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		perduretest.Start(env, wf, "x").Fails(&perdure.Error{Code: journal.CodeInvalid})
	}, wf)
}

// A step of a saga that is a TCC is a run of its own, under the key of the step.
//
// spec: F-44
func TestStepOfASagaIsATCC(t *testing.T) {
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprint(fails), func(t *testing.T) {
			w := &tour{fails: map[string]int{}}
			if fails {
				w.fails["try:b"] = 1
			}
			d, _ := one(w, "one")
			s := saga.New[string]("saga")
			undone := false
			before := saga.Add(s, "before", func(context.Context, string) (string, error) {
				return "", nil
			}).
				Undo(func(context.Context, string, string) error { undone = true; return nil })
			saga.Add(s, "book", func(ctx context.Context, in string) (string, error) {
				key := perdure.ID("one-" + fmt.Sprintf("%x", perdure.IdempotencyKey(ctx)))
				r, err := d.Execute(ctx, w.env.Engine(), in, key)
				if err != nil || !r.IsConfirmed() {
					return "", errors.Join(err, r.Err)
				}
				return string(r.Status.String()), nil
			}).After(before)
			perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
				w.env, w.order, w.keys, w.wrong, undone = env, nil, map[string]string{}, nil, false
				_, err := perduretest.Start(env, s.Workflow, "x").Result()
				if (err != nil) != fails || undone != fails {
					env.Errorf("%v, undone: %v", err, undone)
				}
				env.Settle()
				if len(of(w.order, "confirm")) != map[bool]int{false: 2, true: 0}[fails] ||
					len(w.wrong) > 0 {
					env.Errorf("%v %v", w.order, w.wrong)
				}
				return fmt.Sprint(err)
			}, s, d)
		})
	}
}

// If the author has bounded the context of a TCC and the context ends, a TCC that tries is
// cancelled, including any try that may have happened, and a TCC that confirms carries this out.
// The run continues.
//
// spec: F-38, F-44
func TestATCCIsCarriedOutWhenTheContextAroundItEnds(t *testing.T) {
	for slow, want := range map[string]string{
		"try b":     "cancel a 1, cancel b 1, go-on 1, try a 1",
		"confirm b": "confirm a 1, confirm b 1, go-on 1, try a 1, try b 1",
	} {
		t.Run(slow, func(t *testing.T) {
			var l patterntest.Ledger
			does := func(ctx context.Context, what string) error {
				if what == slow {
					select {
					case <-ctx.Done():
						return context.Cause(ctx)
					case <-time.After(2 * time.Minute):
					}
				}
				return l.Book(ctx, what)
			}
			def := tcc.New[int]("pay").Retry(perdure.NoRetry)
			for _, id := range []string{"a", "b"} {
				tcc.Add(def, id, func(ctx context.Context, _ int) (string, error) {
					return id, does(ctx, "try "+id)
				}).
					Confirm(func(ctx context.Context, _ int, _ string) error {
						return does(ctx, "confirm "+id)
					}).
					Cancel(func(ctx context.Context, _ int, _ string) error {
						return does(ctx, "cancel "+id)
					})
			}
			whole := perdure.Define("whole", func(ctx context.Context, _ int) (int, error) {
				short, stop := context.WithTimeout(ctx, time.Minute)
				defer stop()
				if _, err := def.Inline(short, 1); !errors.Is(err, context.DeadlineExceeded) {
					return 0, fmt.Errorf("inline returns %w", err)
				}
				return perdure.Step(ctx, "go-on", func(ctx context.Context) (int, error) {
					return 7, l.Book(ctx, "go-on")
				})
			})
			perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
				l.Reset()
				perduretest.Start(env, whole, 1).Returns(7)
				if got := l.String(); got != want {
					env.Errorf("took effect: %s, want %s", got, want)
				}
				return nil
			}, whole)
		})
	}
}
