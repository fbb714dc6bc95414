package postgres

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/perdure/perdure/internal/testpg/farm"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/storetest"
)

// noStatistics stops the server from collecting statistics of the tables in the middle of a
// test, which would change the plans.
const noStatistics = `do $$ declare t text; begin
	for t in select format('%I.%I', schemaname, tablename) from pg_tables where schemaname = 'perdure' loop
		execute 'alter table ' || t || ' set (autovacuum_enabled = off)';
	end loop;
end $$`

// allOpen lets the server count some runs, which are all open. They are gone then.
func allOpen(runs int) string {
	return fmt.Sprintf(`
insert into perdure.heads (number, chain, parent, owner, last, mail, given, keep, seen, crashes, pattern, status, claimed, workflow_id, workflow, cause)
select g, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 2, false, 'all-open-' || g, 'all-open', '' from generate_series(1, %d) g;
analyze;
delete from perdure.heads where workflow = 'all-open'`, runs)
}

// Plans are made once, when the tables are empty, or have few rows, which the server may have
// counted. A plan that reads a whole table is then as fast as any other, and gets slower with
// every run that was ever stored.
//
// spec: P-1, P-2
func TestNoPlanReadsAWholeTable(t *testing.T) {
	f := farm.New(t)
	t.Run("nothing counted", func(t *testing.T) { noPlanReadsAll(t, f.URL(t), noStatistics) })
	t.Run("counted early", func(t *testing.T) {
		noPlanReadsAll(t, f.URL(t), noStatistics+"; analyze")
	})
	for _, runs := range []int{1, 30} {
		t.Run(fmt.Sprintf("counted while %d runs were open", runs), func(t *testing.T) {
			noPlanReadsAll(t, f.URL(t), noStatistics+";"+allOpen(runs))
		})
	}
}

// noPlanReadsAll checks the plans of a random history. prepare is run whenever the store opens.
func noPlanReadsAll(t *testing.T, url, prepare string) {
	var mu sync.Mutex
	type planned struct{ statement, plan string }
	plans := map[planned]bool{} // a statement may get another plan as its tables grow
	open := func() (store.Store, error) {
		s, err := Open(t.Context(), url+
			"&session_preload_libraries=auto_explain&auto_explain.log_min_duration=0"+
			"&auto_explain.log_level=notice&auto_explain.log_nested_statements=on")
		if err != nil {
			return nil, err
		}
		config := s.pool.Config()
		config.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
			if _, text, found := strings.Cut(n.Message, "Query Text: "); found {
				statement, plan, _ := cutPlan(text)
				mu.Lock()
				plans[planned{statement, costs.ReplaceAllString(plan, "cost=")}] = true
				mu.Unlock()
			}
		}
		for _, pool := range []**pgxpool.Pool{&s.pool, &s.keeper} {
			(*pool).Close()
			if *pool, err = pgxpool.NewWithConfig(t.Context(), config); err != nil {
				return nil, err
			}
		}
		_, err = s.pool.Exec(t.Context(), prepare)
		return s, err
	}
	m := memory.New()
	like := storetest.Database{Open: func() (store.Store, error) { m = m.Reopen(); return m, nil }}
	watched := at(t, url, Options{})
	watched.Open = open
	storetest.Differ(t, like, watched, 1, 300)
	if len(plans) < 30 {
		t.Errorf("%d plans were seen: this proves little", len(plans))
	}
	for p := range plans {
		if why := readsAll(p.plan); why != "" && !mayReadAll(p.statement) {
			t.Errorf("%s\n\n%s\n\n%s", why, p.statement, p.plan)
		}
	}
}

// cutPlan separates a statement from its plan, which begins with the first line that contains
// costs.
func cutPlan(text string) (statement, plan string, found bool) {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.Contains(line, "  (cost=") {
			return strings.Join(lines[:i], "\n"), strings.Join(lines[i:], "\n"), true
		}
	}
	return text, "", false
}

var (
	node = regexp.MustCompile(`^ *(->  )?([A-Z].*?)  \(cost=`)
	scan = regexp.MustCompile(
		`^(Parallel )?(Seq Scan|Index Scan|Index Only Scan|Bitmap Index Scan)( .*)? on ((perdure\.)?[a-z_]+)`)

	// costs in a plan differ each time.
	costs = regexp.MustCompile(`cost=.*`)

	// limited is a node that stops the node below it.
	limited = regexp.MustCompile(`^ *(->  )?Limit  \(`)

	// passes is a node that takes no more rows than are taken from it.
	passes = regexp.MustCompile(`^ *->  (Subquery Scan on|LockRows)`)

	// tiny tables have a row for each engine, or few.
	tiny = regexp.MustCompile(`^(perdure\.)?(engines|fallen|meta|settings)(_|$)`)
)

// readsAll returns a description of the part of a plan that reads all rows of a table which
// may be large, or an empty text.
func readsAll(plan string) string {
	lines := strings.Split(plan, "\n")
	for i, line := range lines {
		if strings.Contains(line, "hashed SubPlan") {
			return "it makes a table of what it looks something up in"
		}
		n := node.FindStringSubmatch(line)
		if n == nil {
			continue
		}
		s := scan.FindStringSubmatch(n[2])
		above := i - 1
		for above > 0 && passes.MatchString(lines[above]) {
			above--
		}
		if s == nil || tiny.MatchString(s[4]) || above >= 0 && limited.MatchString(lines[above]) {
			continue
		}
		if s[2] == "Seq Scan" || !hasCondition(lines[i+1:]) {
			return "it reads all of " + s[4]
		}
	}
	return ""
}

// hasCondition reports whether a node that reads an index has a condition for it. below are
// the lines after the node.
func hasCondition(below []string) bool {
	for _, line := range below {
		if node.MatchString(line) {
			return false
		}
		if strings.Contains(line, "Index Cond:") {
			return true
		}
	}
	return false
}

// mayReadAll reports whether a statement may read whole tables on purpose: it is part of no
// commit and no claim. A list of busy runs reads all that have an owner.
func mayReadAll(statement string) bool {
	return statement == disown || statement == selectCounts ||
		strings.HasPrefix(statement, selectSlots+limitOf) ||
		strings.Contains(statement, "owner > 0 and ended is null\nunion all") ||
		strings.HasPrefix(statement, "select number from perdure.heads h where h.workflow = "+
			"p_workflow[i]") || // a limit begins to count runs
		strings.Contains(statement, "perdure.unrouted where $1::bigint = 0 "+
			"order by number desc limit")
}
