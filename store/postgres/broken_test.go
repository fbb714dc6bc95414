package postgres

import (
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/testpg/farm"
	"github.com/perdure/perdure/store/storetest"
)

// TestSuiteFailsBrokenVariants breaks the statements that protect engines from each other,
// one at a time, and demands that the suite fails.
//
// spec: B-5, P-1
func TestSuiteFailsBrokenVariants(t *testing.T) {
	f := farm.New(t).Cleared()
	for name, v := range map[string]struct {
		statement *string
		broken    string
		check     string
	}{
		"no fence": {
			&holdEngine, `select $1::bigint`,
			"takeover/the engine that was taken over is fenced from everything",
		},
		"a fence that does not wait": {
			// It rests after its look, so that a take-over falls between look and commit on
			// any machine.
			&holdEngine,
			`select 1 / count(*) from perdure.engines, pg_sleep(0.01) where id = $1`,
			"among/nothing of an engine appears after its take-over",
		},
		"a fence by the clock": {
			&holdEngine,
			`select 1 / count(*) from perdure.engines where id = $1 and leased > clock_timestamp()`,
			"lease/an engine whose lease has passed renews it where nobody took over",
		},
		"no counter of messages": {
			&updateHeads, strings.ReplaceAll(updateHeads, "h.mail <> u.mail", "h.mail < 0"),
			"among/between posts of other engines and unloads no message is stranded",
		},
		"no reservation of workflow IDs": {
			&reserveIDs, `select $1::text[]`,
			"among/between starts and signals of one workflow ID no signal is stranded",
		},
		"take-over and release in one statement": {
			&takeOver,
			`with gone as (delete from perdure.engines where id = $1 and leased <= clock_timestamp() returning id),
freed as (update perdure.heads h set owner = 0, wake = $2, claimed = false from gone g where h.owner = g.id and h.ended is null)
select id from gone`,
			"among/nothing of an engine appears after its take-over",
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func(whole, posts string) { *v.statement, sendPosts = whole, posts }(*v.statement,
				sendPosts)
			*v.statement = v.broken
			if v.statement == &reserveIDs { // a check of its own covers it
				sendPosts = strings.ReplaceAll(sendPosts, "_seq') /", "_seq') + 0 *")
			}
			caught := storetest.Catches(t, v.check, 10, func() storetest.Database {
				return databaseOf(f, t, "", Options{})
			})
			if !caught {
				t.Errorf("%q passes", v.check)
			}
		})
	}
}
