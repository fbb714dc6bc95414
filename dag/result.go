package dag

import (
	"encoding/json"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/report"
)

// A Result is the report of a run of a graph that has ended, or of a run so far.
type Result struct {
	report.Run
}

// A Query answers a question about a run, from its report and arguments. It must change nothing. It
// is called in the process of the caller.
type Query func(r report.Run, args json.RawMessage) (any, error)

// Query adds a query under a name.
func (g *Graph[I]) Query(name string, q Query) *Graph[I] {
	err := pattern.CheckName("query", name, "")
	switch {
	case err != nil:
		g.def.complain("queries."+name, "%v", err)
	case q == nil:
		g.def.complain("queries."+name, "a query needs a function")
	case g.def.queries[name] != nil:
		g.def.complain("queries."+name, "two queries have this name")
	}
	g.def.queries[name] = q
	return g
}

// Answer answers a query about a run. A panic in the query is an error.
func (g *Graph[I]) Answer(r report.Run, name string, args json.RawMessage) (any, error) {
	q := g.def.now().queries[name]
	if q == nil {
		return nil, &perdure.Error{
			Code: perdure.CodeNotFound, Op: "query " + name, Message: "graph " + g.def.name +
				" has no such query",
		}
	}
	var answer any
	err := guard.Call(func() (err error) {
		answer, err = q(r, args)
		return err
	})
	return answer, err
}

// Current returns the IDs of the steps that have not ended.
func (r Result) Current() []string {
	var ids []string
	for _, s := range r.Steps {
		if !s.Status.IsTerminal() {
			ids = append(ids, s.ID)
		}
	}
	return ids
}
