package app

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store/memory"
)

// spec: F-8
func TestAnIssueOfADefinitionIsLogged(t *testing.T) {
	var out bytes.Buffer
	engine, err := perdure.New(memory.New(), perdure.Options{
		Observers: []observe.Observer{
			observe.Log(slog.New(slog.NewTextHandler(&out, nil)), slog.LevelInfo),
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Register(perdure.Define("w", func(context.Context, int) (int, error) {
		return 0, nil
	},
		pattern.Declared(func() (definition.Outline, []definition.Issue) {
			return definition.Outline{}, []definition.Issue{
				{Severity: definition.SeverityWarning, Message: "odd"},
				{Severity: definition.SeverityInfo, Message: "large"},
			}
		}))); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(out.String()) {
		_, line, _ = strings.Cut(line, " ") // without the time
		lines = append(lines, line)
	}
	if want := []string{
		"level=WARN msg=\"perdure: definition advised\" workflow=w reason=\"WARNING: odd\"\n",
		"level=INFO msg=\"perdure: definition advised\" workflow=w reason=\"INFO: large\"\n",
	}; !slices.Equal(lines, want) {
		t.Errorf("the log has %q, want %q", lines, want)
	}
}
