package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Many are the runs of a large database: of three engines and many workflows, one of them rare, and
// with two search attributes, one common and one rare. One run in 200 is open, one in 100 has
// failed.
type Many struct {
	Store    store.Store
	Runs     int
	database string
	engine   journal.EngineID
}

// Fill makes the runs of a large database.
func Fill(ctx context.Context, s store.Store, runs int) (*Many, error) {
	info, err := s.Info(ctx)
	if err != nil {
		return nil, err
	}
	got, err := s.Claim(ctx, store.Join{Self: store.Engine{Host: "host", Slots: 1}, Now: epoch})
	if err != nil {
		return nil, err
	}
	m := &Many{s, runs, info.Database, got.Engine}
	const group = 500
	for i := 0; i < runs; i += group {
		var starts, ends []store.Change
		for n := i; n < min(i+group, runs); n++ {
			start := m.start(n)
			starts = append(starts, start)
			if end, ok := m.end(n, *start.Head); ok {
				ends = append(ends, end)
			}
		}
		for _, changes := range [][]store.Change{starts, ends} {
			g := &store.Group{Engine: m.engine, Now: epoch, Changes: changes}
			if err := s.Commit(ctx, g); err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}

// Last returns the time at which the last run was created.
func (m *Many) Last() time.Time { return at(m.Runs - 1) }

func (m *Many) start(n int) store.Change {
	number, _ := journal.MakeNumber(m.engine+journal.EngineID(n%3), int64(n+1))
	h := &journal.Head{
		Number: number, ID: journal.MakeRunID(m.database, number),
		WorkflowID: fmt.Sprint("order-", n), Workflow: fmt.Sprint("workflow-", n*7%20),
		Pattern: journal.Pattern(n % 5), Status: journal.Running, Owner: m.engine, Chain: number,
		Created: at(n), Wake: at(n), Retain: "ever",
	}
	if n%5000 == 77 {
		h.Workflow = "rare"
	}
	return store.Change{Run: number, Create: true, Head: h, Entries: []journal.Entry{{
		Run: number, Seq: 1, Kind: journal.RunStarted, Status: journal.Running, At: h.Created,
		Data: []byte(`{"in":1}`), Detail: &journal.Detail{StartDetail: journal.StartDetail{
			Attributes: map[string]string{
				"tier":     []string{"silver", "gold"}[n/3%2],
				"customer": fmt.Sprint(n % max(m.Runs/100, 1)),
			},
		}},
	}}}
}

// end returns the last change of a run, and false if the run stays as it began.
func (m *Many) end(n int, h journal.Head) (store.Change, bool) {
	if n%1000 == 5 {
		return store.Change{}, false
	}
	c := ended(h, 2, n)
	c.Head.Ended = at(n + n%100)
	switch {
	case n%1000 == 11:
		c = update(h, func(h *journal.Head) { h.Status, h.Owner = journal.Suspended, 0 })
	case n%200 == 3:
		c = update(h, func(h *journal.Head) {
			h.Status, h.Owner, h.Wake = journal.Waiting, 0, at(1<<30)
		})
	case n%100 == 50:
		c.Head.Status = journal.Failed
		c.Head.Error = fmt.Sprint("step charge: card ", n%7, " declined")
	case n%1000 == 60:
		c.Head.Status, c.Head.Error = journal.TimedOut, "workflow timed out"
	}
	return c, true
}

// Lists are filters of lists of the runs, as people ask for them.
func (m *Many) Lists() map[string]store.Filter {
	failed := []journal.Status{journal.Failed}
	ago := func(part int) time.Time { return at(m.Runs - m.Runs/part) }
	return map[string]store.Filter{
		"all":                   {Without: "perdure."},
		"open":                  {Open: true},
		"suspended":             {Statuses: []journal.Status{journal.Suspended}},
		"completed":             {Statuses: []journal.Status{journal.Completed}},
		"failed":                {Statuses: failed},
		"failed or timed out":   {Statuses: []journal.Status{journal.Failed, journal.TimedOut}},
		"failed of a workflow":  {Statuses: failed, Workflow: "workflow-10"},
		"a workflow":            {Workflow: "workflow-1"},
		"a rare workflow":       {Workflow: "rare"},
		"several workflows":     {Workflows: []string{"workflow-1", "workflow-2", "rare"}},
		"a pattern":             {Patterns: []journal.Pattern{journal.PatternSaga}},
		"a common attribute":    {Attributes: map[string]string{"tier": "gold"}},
		"a rare attribute":      {Attributes: map[string]string{"customer": "7"}},
		"both attributes":       {Attributes: map[string]string{"tier": "gold", "customer": "7"}},
		"no such attribute":     {Attributes: map[string]string{"customer": "nobody"}},
		"an old range":          {CreatedFrom: ago(1), CreatedTo: ago(2)},
		"old failures":          {CreatedTo: ago(2), Statuses: failed},
		"an error":              {Error: "card 3 DECLINED"},
		"no such error":         {Error: "no such thing"},
		"ended long ago":        {EndedTo: at(m.Runs / 100)},
		"stale":                 {Stale: ago(2)},
		"busy":                  {Busy: m.Last()},
		"a workflow ID":         {WorkflowID: "order-77"},
		"a pattern of no run":   {Patterns: []journal.Pattern{200}},
		"a middle page":         {After: journal.Cursor{Created: ago(2).UnixNano(), Number: 1}},
		"failures of attribute": {Statuses: failed, Attributes: map[string]string{"tier": "gold"}},
	}
}

// BenchLists measures a page of each list, and the slowest page of a list of all its runs.
func BenchLists(b *testing.B, m *Many) {
	lists := m.Lists()
	names := make([]string, 0, len(lists))
	for name := range lists {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b.Run(name, func(b *testing.B) {
			f := lists[name]
			var worst time.Duration
			rows, pages := 0, 0
			for b.Loop() {
				began := time.Now()
				heads, next, err := m.Store.Find(b.Context(), f)
				if err != nil {
					b.Fatal(err)
				}
				worst = max(worst, time.Since(began))
				rows, pages = rows+len(heads), pages+1
				if f.After = next; next.IsZero() {
					f.After = lists[name].After
				}
			}
			b.ReportMetric(float64(rows)/float64(pages), "runs/page")
			b.ReportMetric(float64(worst.Microseconds())/1000, "worst-ms")
		})
	}
}

// BenchCounts measures the counts of each list.
func BenchCounts(b *testing.B, m *Many) {
	for name, f := range m.Lists() {
		b.Run("counts of "+name, func(b *testing.B) {
			for b.Loop() {
				if _, err := store.CountRuns(b.Context(), m.Store, f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
