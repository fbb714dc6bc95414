package steps

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"

	"github.com/perdure/perdure/internal/enginetest/world"
)

type texts struct {
	Text   string
	Any    any             `json:",omitempty"`
	Raw    json.RawMessage `json:",omitempty"`
	Map    map[string]any  `json:",omitempty"`
	hidden string
	Not    string `json:"-"`
}

// An aliased value encodes itself, as another type.
type aliased struct {
	Text string
	self *aliased
}

func (a *aliased) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct{ Text string }{a.Text})
}

type text string

func (t text) MarshalText() ([]byte, error) { return []byte(t), nil }

func escape(s string) *aliased {
	a := &aliased{Text: s}
	a.self = a
	return a
}

// Valid UTF-8 is kept, whatever it spells; other text is refused.
//
// spec: F-22
func TestEveryTextInUTF8IsKept(t *testing.T) {
	const six, raw = `\ufffd`, `"\ufffd"`
	for name, c := range map[string]struct {
		v    any
		kept bool
	}{
		"six characters":    {six, true},
		"after a backslash": {`\` + six, true},
		"the character":     {"\ufffd", true},
		"both":              {six + "\ufffd", true},
		"raw JSON":          {texts{Raw: json.RawMessage(raw)}, true},
		"raw JSON, and a hidden one": {
			texts{Raw: json.RawMessage(raw), hidden: "\xff", Not: "\xff"},
			true,
		},
		"bytes": {
			map[string]any{"a": []byte{0xff}, "b": json.RawMessage(raw)},
			true,
		},
		"nested": {
			texts{Any: []any{six, texts{Text: six}}, Map: map[string]any{six: nil}},
			true,
		},
		"its own JSON": {escape(six), true},
		"its own text": {map[text]any{six: text(six)}, true},

		"no UTF-8":            {"\xff", false},
		"no UTF-8 in a field": {texts{Text: "a\xffb"}, false},
		"no UTF-8 beside raw": {texts{Text: "\xff", Raw: json.RawMessage(raw)}, false},
		"no UTF-8 deeper": {
			&texts{Any: []any{1, &texts{Map: map[string]any{"a": [2]any{1, "\xff"}}}}}, false,
		},
		"no UTF-8 in a key":        {map[string]int{"\xff": 1}, false},
		"no UTF-8 in its own":      {escape("\xff"), false},
		"no UTF-8 in a text":       {[]any{text("\xff")}, false},
		"no UTF-8 in raw JSON":     {[]json.RawMessage{json.RawMessage("\"\xff\"")}, false},
		"no UTF-8 after a sign":    {six + "\xff", false},
		"no UTF-8 in a text's key": {map[text]int{"\xff": 1}, false},
	} {
		data, err := pattern.Encode(c.v)
		if (err == nil) != c.kept || !c.kept && journal.CodeOf(err) != journal.CodeEncode {
			t.Errorf("%s: %s, %v", name, data, err)
		}
	}
}

// spec: F-22
func TestEscapesPassInInputsSignalsAndResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const six = `\ufffd`
		said := perdure.NewSignal[texts]("said")
		wf := perdure.Define("w", func(ctx context.Context, in texts) (texts, error) {
			heard, err := said.Wait(ctx)
			if err != nil {
				return texts{}, err
			}
			return perdure.Step(ctx, "s", func(context.Context) (texts, error) {
				return texts{Text: in.Text + heard.Text, Raw: in.Raw}, nil
			})
		})
		w := world.New(t, wf)
		defer w.End()
		run, err := wf.Start(t.Context(), w.Engine, texts{
			Text: six, Raw: json.RawMessage(`"\ufffd"`),
		},
			perdure.ID("x"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := said.Send(t.Context(), w.Engine, "x", texts{Text: six}); err != nil {
			t.Fatal(err)
		}
		out, err := run.Result(t.Context())
		if got := fmt.Sprintf("%s %s %v", out.Text, out.Raw, err); got != six+six+
			` "\ufffd" <nil>` {
			t.Error(got)
		}
	})
}
