package steps

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"

	"github.com/perdure/perdure/internal/enginetest/world"
)

// spec: B-3
func TestValuesThatCannotBeKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		executed := map[string]int{}
		keep := func(ctx context.Context, name string, v any) error {
			_, err := perdure.Step(ctx, name, func(context.Context) (any, error) {
				executed[name]++
				return v, nil
			})
			return err
		}
		wf := perdure.Define("w", func(ctx context.Context, in struct{ N int }) (any, error) {
			world.CodeIs(t, keep(ctx, "chan", make(chan int)), journal.CodeEncode)
			world.CodeIs(t, keep(ctx, "utf8", "a\xffb"), journal.CodeEncode)
			world.CodeIs(t, keep(ctx, "large", strings.Repeat("x", 999)), journal.CodeTooLarge)
			if err := keep(ctx, "limit", strings.Repeat("x", 998)); err != nil {
				t.Error("at the limit:", err)
			}
			if err := keep(ctx, "large", strings.Repeat("x", 999)); err == nil ||
				!strings.Contains(err.Error(), "limit of one payload is 1000") {
				t.Error("the limit is not named:", err)
			}
			_, err := perdure.Step(ctx, "decode", func(context.Context) (picky, error) {
				executed["decode"]++
				return picky{}, nil
			})
			world.CodeIs(t, err, journal.CodeDecode)
			return make([]byte, in.N), nil
		})
		w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{wf}}
		w.Options = perdure.Options{Build: "test", MaxPayload: 1000}
		w.Begin()
		defer w.End()
		run, _, err := world.Result(w, wf, struct{ N int }{2000})
		world.CodeIs(t, err, journal.CodeTooLarge)
		for name, n := range executed {
			if n != 1 && name != "large" || n > 2 {
				t.Errorf("%s was executed %d times", name, n)
			}
		}
		w.History(run.ID())
		_, err = w.Engine.Start(context.Background(), "w", fmt.Appendf(nil, `%1001s`, `{"N":1}`))
		world.CodeIs(t, err, journal.CodeTooLarge)
		unaware, err := perdure.NewClient(context.Background(), w.DB)
		if err != nil {
			t.Fatal(err)
		}
		for _, input := range []string{`{"N":"x"}`, `not json`, ``, "\xff\x00"} {
			_, err := w.Engine.Start(context.Background(), "w", []byte(input))
			world.CodeIs(t, err, journal.CodeInvalid)
			run, err := unaware.Start(context.Background(), "w", []byte(input))
			if err != nil {
				t.Fatal(err)
			}
			_, err = run.Result(context.Background())
			world.CodeIs(t, err, journal.CodeDecode)
			if n := len(w.History(run.ID())); n != 3 {
				t.Errorf("input %q: %d entries", input, n)
			}
		}
	})
}

// picky values can be encoded, and not decoded.
type picky struct{}

func (picky) MarshalJSON() ([]byte, error)  { return []byte(`"x"`), nil }
func (*picky) UnmarshalJSON(b []byte) error { return fmt.Errorf("no") }

// spec: B-3
func TestBytesAreKeptExactly(t *testing.T) {
	odd := [][]byte{
		{},
		{0},
		[]byte("a\x00b"),
		{0xff, 0xfe},
		[]byte("\u2028\ufffd"),
		bytes.Repeat([]byte{0x80, 0}, 200_000),
	}
	wf := perdure.Define("w", func(ctx context.Context, in []byte) ([]byte, error) {
		out, err := perdure.Step(ctx, "s", func(context.Context) ([]byte, error) { return in, nil })
		if err != nil || !bytes.Equal(out, in) {
			t.Errorf("%q came back as %q, %v", in, out, err)
		}
		_, err = perdure.Step(ctx, "text", func(context.Context) (string, error) {
			return "a\x00\u2028\ufffd<&>", nil
		})
		if err != nil {
			t.Error(err)
		}
		return out, err
	})
	s, err := sqlite.Open(filepath.Join(t.TempDir(), "x.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	eng, err := perdure.New(s, perdure.Options{Build: "test"})
	if err == nil {
		err = eng.Register(wf)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- eng.Run(ctx) }()
	for i, in := range odd {
		run, err := wf.Start(ctx, eng, in)
		if err != nil {
			t.Fatal(err)
		}
		out, err := run.Result(ctx)
		if err != nil || !bytes.Equal(out, in) {
			t.Errorf("%d: %d bytes came back as %d, %v", i, len(in), len(out), err)
		}
		entries, err := eng.History(ctx, run.ID(), 0, 0)
		if err != nil || !bytes.Equal(entries[0].Data, in) || !bytes.Equal(entries[1].Data, in) ||
			!bytes.Equal(entries[3].Data, in) {
			t.Errorf("%d: the history has other bytes, %v", i, err)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestJSONValuesOfAnyKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, in json.RawMessage) (json.RawMessage,
			error) {
			return perdure.Step(ctx, "s", func(context.Context) (json.RawMessage, error) {
				return in, nil
			})
		})
		w := world.New(t, wf)
		defer w.End()
		for _, in := range []string{`{ "a" : [1, 2.50, null] }`, `"\ufffd"`, `0`} {
			if _, out, err := world.Result(w, wf, json.RawMessage(in)); string(out) != in ||
				err != nil {
				t.Errorf("%s came back as %s, %v", in, out, err)
			}
		}
	})
}
