package token_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/token"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

func frontEnd(t *testing.T, s store.Store) *kernel.FrontEnd {
	t.Helper()
	c, err := perdure.NewClient(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return c.Sealed().FrontEnd
}

// Processes that make their first tokens at the same time all accept what the others have signed,
// and from then on all sign with one key.
//
// spec: B-23
func TestTheFirstTokensOfAllProcessesAreGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		const n = 8
		texts := make([]string, n)
		fronts := make([]*kernel.FrontEnd, n)
		var all sync.WaitGroup
		for i := range n {
			fronts[i] = frontEnd(t, s)
			all.Go(func() {
				text, err := token.Make(t.Context(), fronts[i], token.Claims{Purpose: "p"})
				if err != nil {
					t.Error(err)
				}
				texts[i] = text
			})
		}
		all.Wait()
		later := ""
		for i, f := range fronts {
			for _, text := range texts {
				if _, err := token.Check(t.Context(), f, "p", text); err != nil {
					t.Errorf("process %d: %v", i, err)
				}
			}
			text, err := token.Make(t.Context(), f, token.Claims{Purpose: "p"})
			if err != nil || later != "" && text != later {
				t.Errorf("process %d signs with a key of its own: %v", i, err)
			}
			later = text
		}
	})
}

// A token of another database is forged. To check one makes no key.
//
// spec: B-23
func TestADatabaseHasItsOwnKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, other := frontEnd(t, memory.New()), frontEnd(t, memory.New())
		text, err := token.Make(t.Context(), one, token.Claims{Purpose: "p"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := token.Check(t.Context(), other, "p", text); !errors.Is(err, token.ErrForged) {
			t.Errorf("%v, want forged", err)
		}
		if keys, err := token.Load(t.Context(), other); err != nil || len(keys) > 0 {
			t.Errorf("%d keys, %v", len(keys), err)
		}
	})
}

// The newest key signs and all verify, until one is revoked. A setting that is not readable is no
// key.
//
// spec: B-23
func TestKeysAreRotatedAndRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, f := t.Context(), frontEnd(t, memory.New())
		signing := func() (string, string) {
			text, err := token.Make(ctx, f, token.Claims{Purpose: "p"})
			if err != nil {
				t.Fatal(err)
			}
			keys, err := token.Load(ctx, f)
			if err != nil {
				t.Fatal(err)
			}
			return text, keys[len(keys)-1].ID()
		}
		first, old := signing()
		second, young := first, old
		for range 6 { // the names of the keys are random, and their order is not that of the names
			if err := token.Rotate(ctx, f, "me", "time"); err != nil {
				t.Fatal(err)
			}
			text, id := signing()
			if young == id || second == text {
				t.Fatalf("the key %s signs still", id)
			}
			second, young = text, id
		}
		check := func(text string, want error) {
			t.Helper()
			if _, err := token.Check(ctx, f, "p", text); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		check(first, nil)
		check(second, nil)
		for _, id := range []string{old, old, "nobody"} {
			if err := token.Revoke(ctx, f, id, "me", "leaked"); err != nil {
				t.Fatal(err)
			}
		}
		check(first, token.ErrForged)
		check(second, nil)
		for _, value := range []string{"x", `{"secret":"c2hvcnQ="}`} {
			if err := kernel.PutSetting(ctx, f, "x", store.Setting{
				Kind: token.SettingKind, Name: "zzz", Value: []byte(value),
			}); err != nil {
				t.Fatal(err)
			}
			if _, id := signing(); id != young {
				t.Errorf("%s signs, want %s", id, young)
			}
		}
	})
}

// The body of a step makes a token, also in the first use of the database. Elsewhere in a workflow
// there are none, since replay would make them again.
//
// spec: B-23
func TestAStepMakesAToken(t *testing.T) {
	var misused error
	w := perdure.Define("w", func(ctx context.Context, _ string) (string, error) {
		_, misused = token.MakeInStep(ctx, token.Claims{Purpose: "p"})
		return perdure.Step(ctx, "make", func(ctx context.Context) (string, error) {
			return token.MakeInStep(ctx, token.Claims{Purpose: "p", Run: "r"})
		})
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		run, err := w.Start(env.Context(), env.Engine(), "")
		if err != nil {
			t.Fatal(err)
		}
		text, err := run.Result(env.Context())
		if err != nil {
			t.Fatal(err)
		}
		f := env.Engine().Sealed().FrontEnd
		if c, err := token.Check(env.Context(), f, "p", text); err != nil || c.Run != "r" {
			t.Errorf("%+v, %v", c, err)
		}
		if journal.CodeOf(misused) != journal.CodeMisuse {
			t.Errorf("%v, want misuse", misused)
		}
	}, w)
}

// What operators are shown has no secret in it.
//
// spec: B-23
func TestNothingShowsTheSettingOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, s := t.Context(), memory.New()
		c, err := perdure.NewClient(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := token.Ensure(ctx, c.Sealed().FrontEnd); err != nil {
			t.Fatal(err)
		}
		info, err := s.Info(ctx)
		if err != nil || len(info.Settings) != 1 {
			t.Fatalf("%d settings, %v", len(info.Settings), err)
		}
		var kept struct{ Secret string }
		if err := json.Unmarshal(info.Settings[0].Value, &kept); err != nil || kept.Secret == "" {
			t.Fatalf("%q, %v", kept.Secret, err)
		}
		a := admin.New(c)
		checks, err := a.Doctor(ctx, admin.DoctorOptions{})
		limits, err2 := a.Limits(ctx)
		if err = errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		if out := fmt.Sprintf("%+v %+v", checks, limits); strings.Contains(out, kept.Secret) {
			t.Error("the secret is shown")
		}
	})
}
