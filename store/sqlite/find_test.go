package sqlite

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/storetest"
)

// A list reads no table without an index, and sorts nothing but a set of few runs.
//
// spec: P-1
func TestListsWalkOneIndex(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "runs.db"))
	m, err := storetest.Fill(t.Context(), s, 20_000)
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range m.Lists() {
		if _, _, err := s.Find(t.Context(), f); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := s.Count(t.Context(), f); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		f.Parent, f.Owner, f.Newest = 1<<40, 1, true
		if _, _, err := s.Find(t.Context(), f); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	var statements []string
	err = s.readers.use(func(c *conn) error {
		for sql := range c.stmts {
			statements = append(statements, sql)
		}
		for _, sql := range statements {
			if !strings.HasPrefix(sql, "select") {
				continue
			}
			plan := planOf(t, c, sql, strings.Count(sql, "?"))
			if part, ok := strings.CutPrefix(plan, "CO-ROUTINE perdure_heads\n"); ok {
				plan = strings.Replace(part, "SCAN perdure_heads\n", "", 1) // of that part
			}
			few := strings.Contains(sql, "perdure_heads not indexed")
			if strings.Contains(plan, "SCAN perdure_heads\n") ||
				!few && strings.Contains(plan, "FOR ORDER BY") {
				t.Errorf("%s\nneeds\n%s", sql, plan)
			}
		}
		return nil
	})
	if err != nil || len(statements) < 30 {
		t.Errorf("%d statements: this proves little, %v", len(statements), err)
	}
}

// A page of runs looks at a bounded number of them: of 20,000 runs few match, and there are as
// many pages as the bound demands.
//
// spec: P-1
func TestPageLooksAtABoundedNumberOfRuns(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "runs.db"))
	m, err := storetest.Fill(t.Context(), s, 20_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a pattern of no run", "ended long ago"} {
		f := m.Lists()[name]
		found, pages := 0, 0
		for more := true; more; more = !f.After.IsZero() {
			heads, next, err := s.Find(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.IsSortedFunc(heads, func(a, b journal.Head) int {
				return b.Cursor().Compare(a.Cursor())
			}) {
				t.Errorf("%s: a page is not in order", name)
			}
			found, pages, f.After = found+len(heads), pages+1, next
		}
		if want := m.Runs / store.MaxLooks; pages < want || pages > want+4 {
			t.Errorf("%s: %d runs on %d pages, want about %d", name, found, pages, want)
		}
	}
}

// BenchmarkLists measures pages of lists. The variable PERDURE_LIST_RUNS is the number of runs.
func BenchmarkLists(b *testing.B) {
	runs, _ := strconv.Atoi(os.Getenv("PERDURE_LIST_RUNS"))
	s, err := Open(filepath.Join(b.TempDir(), "runs.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	m, err := storetest.Fill(b.Context(), s, max(runs, 20_000))
	if err != nil {
		b.Fatal(err)
	}
	storetest.BenchLists(b, m)
	storetest.BenchCounts(b, m)
}
