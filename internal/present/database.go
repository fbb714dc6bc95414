package present

import (
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/internal/near"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Database returns the form of the facts about a store at an address.
func Database(at string, info store.Info) api.Database {
	d := api.Database{
		Store: at, Driver: info.Driver, Identity: info.Database, Schema: info.Schema,
		Durability: info.Durability,
		Bytes:      info.Bytes, Runs: info.Runs, Unrouted: info.Unrouted, Outbox: info.Outbox,
		Engines: []api.Engine{},
	}
	for _, e := range info.Engines {
		d.Engines = append(d.Engines, Engine(e, info.Now))
	}
	return d
}

// Engine returns the form of an engine. The rest of its lease is counted from now, a time of the
// store's clock.
func Engine(e store.Engine, now time.Time) api.Engine {
	told := api.Engine{
		ID: int64(e.ID), Host: e.Host, PID: e.PID, Since: moment(e.Since), Build: e.Build,
		Alive: !e.Expired,
		Runs:  e.Runs, Slots: e.Slots, Seen: moment(e.Seen), Until: moment(e.Until),
	}
	if e.Workflows != nil {
		told.Workflows = slices.DeleteFunc(slices.Clone(e.Workflows), IsReserved)
	}
	if d := e.Drain; !d.Until.IsZero() {
		told.Drain = &api.Drain{Until: moment(d.Until), Runs: d.Runs, Steps: d.Steps}
	}
	if !e.Until.IsZero() {
		told.Left = max(e.Until.Sub(now), 0).Round(time.Millisecond).Seconds()
	}
	return told
}

func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

// shownRuns is the number of runs of each marker.
const shownRuns = 10

// Versions returns the form of the versions of code that runs need.
func Versions(v admin.Versions) api.Versions {
	out := api.Versions{
		Builds: []api.Build{}, Markers: []api.Marker{}, Partial: v.Partial,
		PartialFailed: v.PartialFailed,
	}
	for _, b := range v.Builds {
		engines := []int64{}
		for _, id := range b.Engines {
			engines = append(engines, int64(id))
		}
		out.Builds = append(out.Builds, api.Build{
			Workflow: b.Workflow, Build: b.Build, Engines: engines, Open: b.Open,
			Failed: b.Failed, MayGo: b.MayGo, Why: b.Why,
		})
	}
	for _, m := range v.Markers {
		ids := []string{}
		for _, id := range m.Runs[:min(len(m.Runs), shownRuns)] {
			ids = append(ids, string(id))
		}
		out.Markers = append(out.Markers, api.Marker{
			Workflow: m.Workflow, Change: m.Change, Version: m.Version, Open: len(m.Runs),
			Undecided: m.Undecided, Failed: m.Failed, MayGo: m.MayGo, Why: m.Why, Runs: ids,
		})
	}
	return out
}

// Unregistered returns an error of code unregistered if engines live, and say that none of them has
// a workflow. Its hint has the way to start it all the same. Without an engine, nobody knows.
func Unregistered(info store.Info, workflow, anyway string) error {
	var names []string
	living := false
	for _, e := range info.Engines {
		switch {
		case e.Expired:
			continue
		case e.Workflows == nil, slices.Contains(e.Workflows, workflow):
			return nil
		}
		living, names = true, append(names, e.Workflows...)
	}
	if !living {
		return nil
	}
	hint := anyway
	if meant := near.Hint(workflow, slices.DeleteFunc(names, IsReserved)); meant != "" {
		hint = meant + " " + hint
	}
	return &perdure.Error{
		Code: journal.CodeUnregistered, Op: "start " + workflow,
		Message: "no living engine has the workflow", Hint: hint,
	}
}
