package server

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/internal/present"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/server/auth"
	"github.com/perdure/perdure/store"
)

// A Parked is a run that waits for an operator.
type Parked struct {
	api.Run
	Why       string     `json:"why"`
	Questions []api.Wait `json:"questions,omitempty"` // none: a resume lets it go on
}

// operations registers what operators look at.
func (s stateRoutes) operations() {
	const group = "operations"
	add(s.Server, operation{
		id: "doctor", method: http.MethodGet, path: "/doctor", group: group,
		summary: "What is wrong, and the commands that mend it", need: auth.Viewer,
	}, s.doctor)
	s.loops()
	add(s.Server, operation{
		id: "list-workers", method: http.MethodGet, path: "/workers", group: group,
		summary: "The engines of the database", need: auth.Viewer,
	}, func(ctx context.Context, _ *nothing) (list[api.Engine], error) {
		info, err := s.info(ctx)
		return listOf(present.Database("", info).Engines, ""), err
	})
	add(s.Server, operation{
		id: "get-database", method: http.MethodGet, path: "/database", group: group,
		summary: "The database, its size and its engines", need: auth.Viewer,
		about: "It counts rows, so it takes longer with more runs. Admins also see the address.",
	}, func(ctx context.Context, _ *nothing) (api.Database, error) {
		info, err := s.info(ctx)
		address := ""
		if who(ctx).Role >= auth.Admin {
			address = s.o.Address
		}
		return present.Database(address, info), err
	})
	add(s.Server, operation{
		id: "list-parked", method: http.MethodGet, path: "/parked", group: group,
		summary: "Runs that wait for an operator, newest first", need: auth.Viewer,
	}, s.parked)
	add(s.Server, operation{
		id: "get-metrics", method: http.MethodGet, path: "/metrics", group: group,
		summary: "What this process has done since its start, in numbers", need: auth.Viewer,
	}, func(context.Context, *nothing) (observe.Figures, error) { return s.figures("") })
	add(s.Server, operation{
		id: "get-pattern-metrics", method: http.MethodGet, path: "/metrics/{pattern}",
		group: group, summary: "The same for one pattern, such as SAGA", need: auth.Viewer,
	}, func(_ context.Context, in *struct {
		Pattern string `path:"pattern" maxLength:"40" doc:"a pattern, such as SAGA"`
	}) (observe.Figures, error) {
		return s.figures(in.Pattern)
	})
	add(s.Server, operation{
		id: "list-orchestrators", method: http.MethodGet, path: "/orchestrators", group: "events",
		summary: "The event-driven orchestrators of this process", need: auth.Viewer,
	}, func(context.Context, *nothing) (list[Orchestrator], error) {
		return listOf(s.o.Orchestrators, ""), nil
	})
	add(s.Server, operation{
		id: "count-events", method: http.MethodGet, path: "/events/counts", group: "events",
		summary: "How many events this process has handled, by their type", need: auth.Viewer,
	}, s.eventCounts)
	add(s.Server, operation{
		id: "list-registrations", method: http.MethodGet, path: "/events/registrations",
		group: "events", summary: "What events do, by their type", need: auth.Viewer,
	}, func(context.Context, *nothing) (list[bus.Registration], error) {
		var all []bus.Registration
		for _, g := range s.o.Gateways {
			all = append(all, g.Registrations()...)
		}
		return listOf(all, ""), nil
	})
}

// An EventCount is how many events of a type have come since the process began. Those of types
// without a registration are together, as unknown.
type EventCount struct {
	Type  string `json:"type"`
	Count int64  `json:"count"`
}

func (s stateRoutes) eventCounts(context.Context, *nothing) (list[EventCount], error) {
	sums := map[string]int64{}
	for _, g := range s.o.Gateways {
		for kind, n := range g.Counts() {
			sums[kind] += n
		}
	}
	var all []EventCount
	for _, kind := range slices.Sorted(maps.Keys(sums)) {
		all = append(all, EventCount{kind, sums[kind]})
	}
	return listOf(all, ""), nil
}

// LoopIn names a loop of an engine in a path.
type LoopIn struct {
	Engine int64  `path:"engine" minimum:"1" doc:"the number of an engine"`
	Loop   string `path:"loop" maxLength:"100" doc:"the name of a loop"`
}

// loops registers what an operator sees and does of the loops of engines.
func (s stateRoutes) loops() {
	const group = "operations"
	add(s.Server, operation{
		id: "list-loops", method: http.MethodGet, path: "/loops", group: group,
		summary: "The loops of the engines, and when each had its latest turn", need: auth.Viewer,
	}, func(ctx context.Context, _ *nothing) (list[api.Loop], error) {
		all, err := s.admin.Loops(ctx)
		var out []api.Loop
		for _, l := range all {
			out = append(out, present.Loop(l))
		}
		return listOf(out, ""), err
	})
	add(s.Server, operation{
		id: "start-loop", method: http.MethodPost, path: "/loops/{engine}/{loop}/start",
		group: group, summary: "Let an engine begin a loop again that has stopped",
		need: auth.Operator,
	}, func(ctx context.Context, in *struct {
		LoopIn
		ReasonIn
	}) (Done, error) {
		return Done{true}, s.admin.StartLoop(ctx, journal.EngineID(in.Engine), in.Loop,
			by(ctx, in.Reason))
	})
}

// figures returns what the summary has counted: zeros in a process without an engine.
func (s stateRoutes) figures(pattern string) (observe.Figures, error) {
	var load observe.Load
	if s.engine != nil {
		load = s.engine.Load()
	}
	return s.summary.Read(load, pattern)
}

func (s stateRoutes) info(ctx context.Context) (store.Info, error) {
	info, err := s.store.Info(ctx)
	if err != nil {
		err = unavailable(err)
	}
	return info, err
}

func (s stateRoutes) doctor(ctx context.Context, _ *nothing) (list[api.Check], error) {
	all, err := s.admin.Doctor(ctx, admin.DoctorOptions{Stale: s.o.Stale})
	var out []api.Check
	for _, c := range all {
		out = append(out, present.Check(c, func(command string) string {
			return s.o.Program + " " + command
		}))
	}
	return listOf(out, ""), err
}

func (s stateRoutes) parked(ctx context.Context, in *PageIn) (list[Parked], error) {
	after, err := cursorOf(in.Cursor, "parked")
	if err != nil {
		return list[Parked]{}, err
	}
	all, next, err := s.admin.Parked(ctx, after, in.Limit)
	var out []Parked
	for _, p := range all {
		one := Parked{Run: api.RunOf(p.Head), Why: p.Why}
		for _, d := range p.Decisions {
			one.Questions = append(one.Questions, api.WaitOf(d))
		}
		out = append(out, one)
	}
	return listOf(out, cursorText(next, "parked")), err
}
