package grafana_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/telemetry"
	"github.com/perdure/perdure/telemetry/grafana"
	"github.com/perdure/perdure/telemetry/prometheus"
)

// exercise runs workflows that cause all metrics.
func exercise(t *testing.T, eng *perdure.Engine) {
	t.Helper()
	var errNo = errors.New("no")
	trip := saga.New[int]("trip")
	held := saga.Add(trip, "reserve", func(context.Context, int) (int, error) { return 1, nil }).
		Undo(func(context.Context, int, int) error { return nil })
	saga.Add(trip, "charge", func(context.Context, int) (int, error) {
		return 0, perdure.Permanent(errNo)
	}).After(held)
	lost := perdure.Define("lost", func(ctx context.Context, _ int) (int, error) {
		_, err := perdure.Step(ctx, "again", func(ctx context.Context) (int, error) {
			if s, _ := perdure.StepOf(ctx); s.Attempt == 1 {
				return 0, errNo
			}
			return 1, nil
		}, perdure.Retry{First: time.Nanosecond})
		if err == nil {
			err = perdure.Sleep(ctx, time.Nanosecond)
		}
		return 0, errors.Join(err, perdure.Permanent(errNo))
	}, deadletter.Automatic(true))
	waits := perdure.Define("waits", func(ctx context.Context, _ int) (int, error) {
		return perdure.NewSignal[int]("never").Wait(ctx)
	})
	if err := eng.Register(trip, lost, waits); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- eng.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	if _, err := waits.Start(ctx, eng, 1); err != nil {
		t.Fatal(err)
	}
	if r, err := trip.Execute(ctx, eng, 1); err != nil || r.Err == nil {
		t.Fatal(r, err)
	}
	run, err := lost.Start(ctx, eng, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Result(ctx); err == nil {
		t.Fatal("lost has a result")
	}
}

// line is a sample that the endpoint shows.
var line = regexp.MustCompile(`(?m)^([a-z_]+)(?:\{(.*)\})? `)

var label = regexp.MustCompile(`([a-z_]+)="`)

// exposed returns the labels of the metrics that the endpoint of an engine shows.
func exposed(t *testing.T) map[string][]string {
	t.Helper()
	meters, endpoint, err := prometheus.New()
	if err != nil {
		t.Fatal(err)
	}
	seen, err := telemetry.Metrics(meters)
	if err != nil {
		t.Fatal(err)
	}
	o := perdure.Options{IdleTimeout: time.Hour}
	o.Observers = append(o.Observers, seen)
	eng, err := perdure.New(memory.New(), o)
	if err == nil {
		_, err = telemetry.Watch(meters, eng.Load)
	}
	if err != nil {
		t.Fatal(err)
	}
	exercise(t, eng)
	answer := httptest.NewRecorder()
	endpoint.ServeHTTP(answer, httptest.NewRequest("GET", "/", nil))
	all := map[string][]string{}
	for _, m := range line.FindAllStringSubmatch(answer.Body.String(), -1) {
		labels := []string{}
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			labels = append(labels, l[1])
		}
		all[m[1]] = labels
	}
	return all
}

// queries returns the queries of the dashboard, with values for Grafana's variables.
func queries(t *testing.T) (all []string) {
	t.Helper()
	var d struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(grafana.Dashboard, &d); err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			all = append(all, strings.NewReplacer("$__rate_interval", "5m", "$name", ".*").
				Replace(q.Expr))
		}
	}
	return all
}

// unknown returns what a query names and the endpoint does not show. Prometheus itself adds the
// label instance.
func unknown(query string, all map[string][]string) (out []string, err error) {
	e, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		return nil, err
	}
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		s, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		labels, known := all[s.Name]
		if !known {
			out = append(out, s.Name)
		}
		for _, m := range s.LabelMatchers {
			if m.Name != "__name__" && !slices.Contains(labels, m.Name) {
				out = append(out, s.Name+"{"+m.Name+"}")
			}
		}
		return nil
	})
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		a, ok := n.(*parser.AggregateExpr)
		if !ok {
			return nil
		}
		for _, by := range a.Grouping {
			if by != "instance" && !grouped(a, by, all) {
				out = append(out, fmt.Sprintf("by (%s) of %s", by, a))
			}
		}
		return nil
	})
	return out, nil
}

// grouped reports whether the metrics of an aggregation have a label.
func grouped(a *parser.AggregateExpr, by string, all map[string][]string) bool {
	has := true
	parser.Inspect(a.Expr, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			has = has && slices.Contains(all[s.Name], by)
		}
		return nil
	})
	return has
}

// spec: P-7
func TestTheDashboardAsksForWhatTheEndpointShows(t *testing.T) {
	all := exposed(t)
	asked := queries(t)
	for _, q := range asked {
		if names, err := unknown(q, all); err != nil || len(names) > 0 {
			t.Errorf("%s: %v, and not shown: %q", q, err, names)
		}
	}
	text := strings.Join(asked, "\n")
	for name := range all {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"),
			"_count")
		if !strings.Contains(text, base) {
			t.Errorf("no query asks for %s", name)
		}
	}
	if len(all) < 20 {
		t.Errorf("the endpoint shows %q", slices.Sorted(maps.Keys(all)))
	}
}

func TestAQueryForSomethingElseIsFound(t *testing.T) {
	all := map[string][]string{"runs": {"name"}}
	for query, want := range map[string]string{
		`sum by (name) (rate(runs{name="a"}[5m]))`: "[]",
		`rate(walks[5m])`:                          "[walks]",
		`runs{step="a"}`:                           "[runs{step}]",
		`sum by (step) (runs)`:                     "[by (step) of sum by (step) (runs)]",
	} {
		if got, err := unknown(query, all); fmt.Sprint(got) != want || err != nil {
			t.Errorf("%s: %v, %v, want %s", query, got, err, want)
		}
	}
	if _, err := unknown("sum by (", all); err == nil {
		t.Error("a query that does not parse is taken")
	}
}
