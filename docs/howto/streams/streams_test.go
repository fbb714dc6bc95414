package howto

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/steplog"
)

// A stutterer is a model that fails after half a word, before it answers.
type stutterer struct{}

func (stutterer) Ask(ctx context.Context, _ string, say func(string) error) (string, error) {
	if n, _, _ := perdure.Attempt(ctx); n == 1 {
		slog.WarnContext(ctx, "it stutters")
		return "", errors.Join(say("f-f-"), errors.New("a cough"))
	}
	return "forty-two", errors.Join(say("forty"), say("two"))
}

var ask = Ask(stutterer{})

func TestTheWordsThatCountAreShown(t *testing.T) {
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, ask, "how many?")
		shown := make(chan string)
		go func() {
			all, err := Show(env.Context(), env.Engine(), run.RunID())
			if err != nil {
				env.Errorf("%v", err)
			}
			shown <- strings.Join(all, " ")
		}()
		run.Returns("forty-two")
		if got := <-shown; got != "forty two" {
			env.Errorf("%q", got)
		}
	}, ask)
}

func TestABrowserGoesOnAfterTheLastEvent(t *testing.T) {
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, ask, "how many?")
		run.Returns("forty-two")
		get := func(after string) string {
			r := httptest.NewRequestWithContext(env.Context(), "GET", "/", nil)
			r.SetPathValue("run", run.RunID())
			r.Header.Set("Last-Event-ID", after)
			w := httptest.NewRecorder()
			Events(env.Engine())(w, r)
			return w.Body.String()
		}
		all := get("")
		if !strings.Contains(all, "data: \"forty\"\n") || strings.Contains(all, "void") ||
			!strings.HasSuffix(all, "event: end\ndata:\n\n") {
			env.Errorf("%s", all)
		}
		if rest := get("2"); !strings.Contains(rest, "event: void\ndata: 2\n") {
			env.Errorf("%s", rest)
		}
	}, ask)
}

func TestLinesAreKept(t *testing.T) {
	was := slog.Default()
	defer slog.SetDefault(was)
	Logs(slog.DiscardHandler)
	logging := perdure.Define("logging", func(ctx context.Context, _ int) (string, error) {
		return perdure.Step(ctx, "model", func(ctx context.Context) (string, error) {
			return stutterer{}.Ask(ctx, "", func(string) error { return nil })
		}, steplog.Keep{})
	}, perdure.Retry{Attempts: 2})
	perduretest.Test(t, func(env *perduretest.Env) {
		perduretest.Start(env, Charge, 7, perdure.ID("c")).Returns(7)
		perduretest.Start(env, logging, 0, perdure.ID("l")).Returns("forty-two")
		lines, err := steplog.Read(env.Context(), env.Engine(), "c", steplog.Query{})
		if err != nil || len(lines) != 1 || lines[0].Message != "charging" {
			env.Errorf("%v %v", lines, err)
		}
		got, err := Problems(env.Context(), env.Engine(), "l")
		if err != nil || strings.Join(got, ";") != "model, attempt 1: it stutters" {
			env.Errorf("%q %v", got, err)
		}
	}, Charge, logging)
}
