package patterns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
)

type (
	receipt struct{ Paid int }
	tenant  string
)

// A fullArgument is an argument with every source, and with every form that a field can have.
type fullArgument struct {
	common
	Order    parcel             `perdure:"input,required"`
	City     **string           `perdure:"input=city,required"`
	Raw      json.RawMessage    `perdure:"input=parts"`
	Whole    []byte             `perdure:"input"`
	Receipt  *receipt           `perdure:"step=charge,required"`
	Bytes    []byte             `perdure:"step=bytes"`
	Result   json.RawMessage    `perdure:"step=charge"`
	Open     any                `perdure:"step=charge"`
	Hold     string             `perdure:"try=debit,required"`
	Refund   receipt            `perdure:"undo=charge,required"`
	Why      error              `perdure:"undo-error=charge,required"`
	WhyAny   any                `perdure:"undo-error=charge"`
	Tenant   tenant             `perdure:"header=X-Tenant,required"`
	Pointer  *string            `perdure:"header=X-Tenant"`
	All      perdure.Headers    `perdure:"headers,required"`
	AllToo   *map[string]string `perdure:"headers"`
	Rank     int                `perdure:"variable=rank,required"`
	Blob     []byte             `perdure:"variable=blob"`
	Vars     map[string]any     `perdure:"variables,required"`
	VarsToo  struct{ Rank int } `perdure:"variables"`
	ID       string             `perdure:"id,required"`
	IDToo    any                `perdure:"id"`
	Run      perdure.Info
	Untagged struct {
		ID string `json:"id"`
	}
	unseen int
}

type common struct{ Ctx context.Context }

// absent is an argument whose sources have no values.
type absent struct {
	Key     *string           `perdure:"input=nowhere"`
	Result  receipt           `perdure:"step=later"`
	Raw     []byte            `perdure:"step=later"`
	Hold    string            `perdure:"try=later"`
	Refund  receipt           `perdure:"undo=later"`
	Why     error             `perdure:"undo-error=later"`
	Tenant  *tenant           `perdure:"header=later"`
	Rank    int               `perdure:"variable=later"`
	Numbers map[string]string `perdure:"variables"`
}

func ofSteps(results map[string]string) func(string) (json.RawMessage, bool) {
	return func(step string) (json.RawMessage, bool) {
		data, has := results[step]
		return json.RawMessage(data), has
	}
}

var errDeclined = errors.New("declined")

// spec: F-4
func TestArgumentsAreMadeOfWhatTheRunKnows(t *testing.T) {
	input := `{"id":"p-1","city":"Rome","Weight":2.5,"parts":[{"id":"p-2"}]}`
	given := pattern.Sources{
		Input:  json.RawMessage(input),
		Result: ofSteps(map[string]string{"charge": `{"Paid":7}`, "bytes": "\x00no JSON"}),
		Tried:  ofSteps(map[string]string{"debit": `"hold-1"`}),
		Undone: ofSteps(map[string]string{"charge": `{"Paid":-7}`}),
		UndoError: func(step string) error {
			if step == "charge" {
				return errDeclined
			}
			return nil
		},
	}
	full, none := pattern.NewArguments[fullArgument](), pattern.NewArguments[absent]()
	step := func(f func(ctx context.Context) error) func(context.Context) (int, error) {
		return func(ctx context.Context) (int, error) { return 0, f(ctx) }
	}
	wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		for name, v := range map[string]any{"rank": 3, "blob": []byte{0, 255}} {
			if err := perdure.SetVariable(ctx, name, v); err != nil {
				return 0, err
			}
		}
		_, err := perdure.Step(ctx, "all", step(func(ctx context.Context) error {
			a, err := full.Fill(ctx, given)
			if err == nil {
				checkFull(ctx, t, a, input)
			}
			return err
		}), perdure.NoRetry)
		_, err2 := perdure.Step(ctx, "none", step(func(ctx context.Context) error {
			if err := perdure.RemoveVariable(ctx, "rank"); err != nil {
				return err
			}
			a, err := none.Fill(ctx, given)
			if want := (absent{Numbers: map[string]string{"blob": "AP8="}}); !reflect.DeepEqual(a,
				want) {
				t.Errorf("of what is not there comes %+v", a)
			}
			return err
		}), perdure.NoRetry)
		return 0, errors.Join(err, err2)
	})
	synctest.Test(t, func(t *testing.T) {
		w := world.With(t, perdure.Options{}, wf)
		defer w.End()
		world.StartAndSettle(w, wf, 0, perdure.ID("ord-1"), perdure.Headers{"X-Tenant": "acme"})
		if _, err := world.OutcomeOf(w, wf, "ord-1"); err != nil {
			t.Error(err)
		}
	})
}

func checkFull(ctx context.Context, t *testing.T, a fullArgument, input string) {
	t.Helper()
	headers := map[string]string{"X-Tenant": "acme"}
	rome, acme := "Rome", "acme"
	order := parcel{ID: "p-1", City: &rome, Weight: 2.5, Parts: []parcel{{ID: "p-2"}}}
	city := &rome
	for _, c := range []struct{ what, got, want any }{
		{"Ctx", a.Ctx, ctx}, {"Order", a.Order, order}, {"City", a.City, &city},
		{"Raw", string(a.Raw), `[{"id":"p-2"}]`}, {"Whole", string(a.Whole), input},
		{"Receipt", a.Receipt, &receipt{7}}, {"Bytes", string(a.Bytes), "\x00no JSON"}, {
			"Result", string(a.Result), `{"Paid":7}`,
		}, {"Open", a.Open, map[string]any{"Paid": 7.0}},
		{"Hold", a.Hold, "hold-1"}, {"Refund", a.Refund, receipt{-7}}, {"Why", a.Why, errDeclined},
		{"WhyAny", a.WhyAny, errDeclined},
		{"Tenant", a.Tenant, tenant("acme")}, {"Pointer", a.Pointer, &acme},
		{"All", a.All, perdure.Headers(headers)}, {"AllToo", a.AllToo, &headers},
		{"Rank", a.Rank, 3}, {"Blob", a.Blob, []byte{0, 255}}, {
			"Vars",
			a.Vars,
			map[string]any{"rank": 3.0, "blob": "AP8="},
		}, {"VarsToo", a.VarsToo.Rank, 3},
		{"ID", a.ID, "ord-1"}, {"IDToo", a.IDToo, "ord-1"}, {"Run", a.Run.WorkflowID, "ord-1"},
		{"Untagged", a.Untagged.ID, "p-1"}, {"unseen", a.unseen, 0},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s is %+v, want %+v", c.what, c.got, c.want)
		}
	}
}

// filled returns a function that fills an argument outside a run, with sources that need no run.
func filled[A any](given pattern.Sources) func() (any, error) {
	return func() (any, error) {
		return pattern.NewArguments[A]().Fill(context.Background(), given)
	}
}

func filledOf[A any](input string) func() (any, error) {
	return filled[A](pattern.Sources{Input: json.RawMessage(input)})
}

// spec: F-4
func TestAValueWithoutATagIsTheInputWhereThatDecodes(t *testing.T) {
	type untagged struct {
		Ctx context.Context
		In  int
	}
	ctx := context.Background()
	for i, c := range []struct {
		fill func() (any, error)
		want any
	}{
		{filledOf[int](`7`), 7},
		{filledOf[int](`"x"`), 0},
		{filledOf[int](`{`), 0},
		{filledOf[int](`null`), 0},
		{filled[int](pattern.Sources{}), 0},
		{filledOf[*int](`"x"`), (*int)(nil)},
		{filledOf[string](`"x"`), "x"},
		{filledOf[[]int](`[1,2]`), []int{1, 2}},
		{filledOf[[]int](`[1,"x"]`), []int(nil)},
		{filledOf[receipt](`{"Paid":7}`), receipt{7}},
		{filledOf[*receipt](`{"Paid":7}`), &receipt{7}},
		{filledOf[receipt](`{"Paid":"x"}`), receipt{}},
		{filledOf[map[string]any](`{"a":1}`), map[string]any{"a": 1.0}},
		{filledOf[any](`[1]`), []any{1.0}},
		{filledOf[struct{}](`7`), struct{}{}},
		{filledOf[[]byte](`no JSON`), []byte(`no JSON`)},
		{filledOf[json.RawMessage](` 7`), json.RawMessage(` 7`)},
		{filledOf[tenant](`"x"`), tenant("x")},
		{filledOf[time.Duration](`7`), time.Duration(7)},
		{filledOf[chan int](`7`), (chan int)(nil)},
		{filledOf[fmt.Stringer](`7`), nil},
		{filledOf[context.Context](`7`), ctx},
		{filledOf[untagged](`7`), untagged{ctx, 7}},
		{filledOf[untagged](`"x"`), untagged{ctx, 0}},
		{filledOf[struct{ Inner }](`{"city":"Rome"}`), struct{ Inner }{Inner{"Rome"}}},
		{filledOf[Inner](`[1]`), Inner{}},
		{filledOf[Inner](`null`), Inner{}},
		{filled[Inner](pattern.Sources{}), Inner{}},
		{filled[struct {
			A receipt `perdure:"step=a"`
			B error   `perdure:"undo-error=b"`
		}](pattern.Sources{}), struct {
			A receipt `perdure:"step=a"`
			B error   `perdure:"undo-error=b"`
		}{}},
	} {
		if got, err := c.fill(); !reflect.DeepEqual(got, c.want) || err != nil {
			t.Errorf("%d: it is %#v, %v, want %#v", i, got, err, c.want)
		}
	}
}

// spec: F-4
func TestAValueWithoutATagThatWillBeZeroIsTold(t *testing.T) {
	type untagged struct {
		ID string `perdure:"id"`
		In int
	}
	for i, c := range []struct{ got, want []string }{
		{
			issuesOf[int](inputOf[string]()),
			[]string{"WARNING: it is of type int, and the input of type string: it will be zero"},
		},
		{
			issuesOf[untagged](inputOf[string]()),
			[]string{
				"WARNING: In: it is of type int, and the input of type string: it will be zero",
			},
		},
		{issuesOf[receipt](inputOf[parcel]()), []string{
			"WARNING: it is of type patterns.receipt, and the input of type patterns.parcel: it " +
				"will be zero",
		}},
		{
			issuesOf[chan int](inputOf[int]()),
			[]string{
				"ERROR: the type of the argument is not valid: JSON cannot hold a value of type " +
					"chan int (use structs with exported fields, or let the type have " +
					"MarshalJSON and UnmarshalJSON)",
			},
		},
		{issuesOf[int](inputOf[int]()), nil}, {issuesOf[int](pattern.SourceTypes{}), nil},
		{issuesOf[struct{}](inputOf[int]()), nil},
		{issuesOf[context.Context](inputOf[int]()), nil},
		{issuesOf[perdure.Info](inputOf[int]()), nil}, {issuesOf[any](inputOf[int]()), nil},
		{issuesOf[[]byte](inputOf[parcel]()), nil}, {issuesOf[int](inputOf[[]byte]()), nil},
		{issuesOf[parcel](inputOf[json.RawMessage]()), nil},
		{issuesOf[struct{ Weight int }](inputOf[parcel]()), nil},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%d: it says %q, want %q", i, c.got, c.want)
		}
	}
}

// A step whose argument cannot be made is not tried again: it would fail again.
//
// spec: F-4
func TestAnArgumentThatCannotBeMadeFailsItsStep(t *testing.T) {
	given := pattern.Sources{
		Input: json.RawMessage(`{"city":7}`), Result: ofSteps(map[string]string{"charge": `[]`}),
	}
	fails := map[string]struct {
		fill func(context.Context) error
		code journal.Code
		says string
	}{}
	add := func(name string, fill func(context.Context) error, code journal.Code, says string) {
		fails[name] = struct {
			fill func(context.Context) error
			code journal.Code
			says string
		}{fill, code, says}
	}
	add("key", filling[struct {
		A string `perdure:"input=x,required"`
	}](given), journal.CodeInvalid, `argument A: missing: key "x" of the input (it is required)`)
	add("input", filling[struct {
		A string `perdure:"input,required"`
	}](pattern.Sources{}), journal.CodeInvalid, "argument A: missing: the input")
	add("step", filling[struct {
		A string `perdure:"step=x,required"`
	}](given), journal.CodeInvalid, `missing: the result of step "x"`)
	add("try", filling[struct {
		A string `perdure:"try=x,required"`
	}](given), journal.CodeInvalid, `missing: the try of participant "x"`)
	add("undo", filling[struct {
		A string `perdure:"undo=x,required"`
	}](given), journal.CodeInvalid, `missing: the compensation of step "x"`)
	add("undo-error", filling[struct {
		A error `perdure:"undo-error=x,required"`
	}](given), journal.CodeInvalid, `missing: the error of the compensation of step "x"`)
	add("header", filling[struct {
		A string `perdure:"header=x,required"`
	}](given), journal.CodeInvalid, `missing: header "x"`)
	add("headers", filling[struct {
		A perdure.Headers `perdure:"headers,required"`
	}](given), journal.CodeInvalid, `missing: the headers`)
	add("variable", filling[struct {
		A string `perdure:"variable=x,required"`
	}](given), journal.CodeInvalid, `missing: variable "x"`)
	add("type-of-key", filling[Inner](given), journal.CodeDecode,
		`argument City: key "city" of the input does not decode`)
	add("type-of-step", filling[struct {
		A int `perdure:"step=charge"`
	}](given), journal.CodeDecode, `argument A: the result of step "charge" does not decode`)
	add("wrong-tag", filling[struct {
		A int `perdure:"nothing"`
	}](given), journal.CodeInvalid, `the tag word "nothing" is not known`)
	add("wrong-type", filling[struct {
		A int `perdure:"header=x"`
	}](given), journal.CodeInvalid, `it is of type int, and header "x" of type string`)
	wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		for name, c := range fails {
			attempts := 0
			_, err := perdure.Step(ctx, name, func(ctx context.Context) (int, error) {
				attempts++
				return 0, c.fill(ctx)
			})
			world.CodeIs(t, err, c.code)
			if attempts != 1 || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: after %d attempts: %v", name, attempts, err)
			}
		}
		return 0, nil
	})
	synctest.Test(t, func(t *testing.T) {
		w := world.With(t, perdure.Options{IdleTimeout: time.Hour}, wf)
		defer w.End()
		world.StartAndSettle(w, wf, 0, perdure.ID("x"))
		if _, err := world.OutcomeOf(w, wf, "x"); err != nil {
			t.Error(err)
		}
	})
	_, err := filled[struct {
		A string `perdure:"id"`
	}](given)()
	world.CodeIs(t, err, journal.CodeMisuse) // outside a run
}

func filling[A any](given pattern.Sources) func(context.Context) error {
	args := pattern.NewArguments[A]()
	return func(ctx context.Context) error {
		a, err := args.Fill(ctx, given)
		var zero A
		if !reflect.DeepEqual(a, zero) {
			return fmt.Errorf("it fails with %v and gives %+v", err, a)
		}
		return err
	}
}

// spec: F-4
func TestArgumentsAreMadeByManyAtATime(t *testing.T) {
	args := pattern.NewArguments[struct {
		City string `perdure:"input=city"`
		Raw  []byte `perdure:"step=s"`
		All  parcel
	}]()
	result := json.RawMessage("bytes")
	var all sync.WaitGroup
	for n := range 50 {
		all.Go(func() {
			want := fmt.Sprint("city", n)
			a, err := args.Fill(context.Background(), pattern.Sources{
				Input:  json.RawMessage(fmt.Sprintf(`{"city":%q,"id":%q}`, want, want)),
				Result: func(string) (json.RawMessage, bool) { return result, true },
			})
			if err != nil || a.City != want || a.All.ID != want || string(a.Raw) != "bytes" {
				t.Errorf("it is %+v, %v", a, err)
			}
			a.Raw[0]++ // its own copy
		})
	}
	all.Wait()
	if string(result) != "bytes" {
		t.Errorf("what was given is %q", result)
	}
}

func TestEncodeAndDecodeAreAsJournalsHaveThem(t *testing.T) {
	for _, v := range []any{7, "x", parcel{ID: "p"}} {
		data, err := pattern.Encode(v)
		want, _ := json.Marshal(v)
		if string(data) != string(want) || err != nil {
			t.Errorf("%v is %s, %v", v, data, err)
		}
	}
	raw, err := pattern.Encode([]byte("\x00raw"))
	if back, e := pattern.Decode[[]byte](raw); string(raw) != "\x00raw" ||
		string(back) != "\x00raw" || err != nil || e != nil {
		t.Errorf("bytes are %q, and then %q; %v, %v", raw, back, err, e)
	}
	if p, err := pattern.Decode[parcel]([]byte(`{"id":"p"}`)); p.ID != "p" || err != nil {
		t.Errorf("it is %+v, %v", p, err)
	}
	_, err = pattern.Encode(make(chan int))
	world.CodeIs(t, err, journal.CodeEncode)
	_, err = pattern.Encode("\xff")
	world.CodeIs(t, err, journal.CodeEncode)
	_, err = pattern.Decode[int]([]byte(`"x"`))
	world.CodeIs(t, err, journal.CodeDecode)
}
