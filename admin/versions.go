package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Versions are the versions of code that runs need: builds of the program, and the numbers that
// [perdure.Version] has decided.
type Versions struct {
	Builds  []Build  // by workflow and build
	Markers []Marker // by workflow, change and version
	// Partial is set if not all open runs were read. Then no version may go.
	Partial       bool
	PartialFailed bool // not all failed runs were read
}

// The limits of the journals that Versions reads.
const (
	maxOpenRead   = 100_000
	maxFailedRead = 10_000
)

// A Build is a build of the program that has executed runs of a workflow, or that an engine has.
type Build struct {
	Workflow string
	Build    string
	Engines  []journal.EngineID // the living engines of this build
	Open     int                // the open runs that it has executed last
	Failed   int                // the failed runs that it has executed last: they may be retried
	MayGo    bool               // no open run needs it
	Why      string
}

// A Marker is a number that [perdure.Version] has decided in runs of a workflow, or one below it.
type Marker struct {
	Workflow string
	Change   string
	Version  int
	Runs     []journal.RunID // the open runs that have it, newest first
	// Undecided is the number of open runs that may still get version 0: a build has executed them
	// that has not asked for the change.
	Undecided int
	Failed    int // the failed runs that have it: they may be retried
	// MayGo is set if no open run needs the code of this version, and none will.
	MayGo bool
	Why   string
}

// Versions returns which versions of a workflow's code runs need, and which code may go. An empty
// name means all workflows.
//
// A run keeps what a marker has decided. If a change has no marker, no run needs the code of its
// versions: but see Build, since runs that an older build has executed may still decide on it.
// Versions reads the journals of at most 100,000 open runs, and a damaged journal up to the damage.
// Of the runs that have ended it reads at most 10,000: those that are FAILED, CANCELLED or
// TIMED_OUT, the newest of each workflow ID, until their retention is over. They do not keep code
// from going, but a retry of them needs it, and is suspended without it. Completed runs, which may
// be forked or rolled back, do not count.
func (a *Client) Versions(ctx context.Context, workflow string) (Versions, error) {
	if workflow != "" && !journal.ValidName(workflow) {
		return Versions{}, failure.BadName("workflow", workflow)
	}
	info, err := a.client.FrontEnd.Info(ctx)
	if err != nil {
		return Versions{}, err
	}
	c := newVersionCount(info.Engines)
	var v Versions
	v.Partial, err = a.eachJournal(ctx, store.Filter{Open: true, Workflow: workflow}, maxOpenRead,
		c.add)
	if err != nil {
		return Versions{}, err
	}
	v.PartialFailed, err = a.eachJournal(ctx, store.Filter{
		Statuses: []journal.Status{journal.Failed, journal.Cancelled, journal.TimedOut},
		Newest:   true, Workflow: workflow,
	}, maxFailedRead, c.add)
	if err != nil {
		return Versions{}, err
	}
	v.Builds, v.Markers = c.builds(v.Partial), c.markers(v.Partial)
	return v, nil
}

// eachJournal calls f with each run that the filter selects, at most that many, and its journal. It
// reports whether there are more runs.
func (a *Client) eachJournal(ctx context.Context, f store.Filter, most int,
	do func(journal.Head, []journal.Entry)) (more bool, err error) {
	f.Without, f.Limit = kernel.OwnPrefix, store.MaxLimit
	for n := 0; ; {
		heads, next, err := a.client.FrontEnd.Heads(ctx, f)
		if err != nil {
			return false, err
		}
		for _, h := range heads {
			if n++; n > most {
				return true, nil
			}
			entries, err := a.client.FrontEnd.Read(ctx, h, store.Range{})
			if err != nil && !failure.IsDamaged(err) {
				return false, err
			}
			do(h, entries)
		}
		if f.After = next; next.IsZero() {
			return false, nil
		}
	}
}

// A versionCount counts which runs have which versions.
type versionCount struct {
	living  map[string][]journal.EngineID // by build
	byBuild map[[2]string]*Build          // by workflow and build
	byRun   []runVersions                 // of open runs
	changes map[[2]string]*changeCount    // by workflow and change
}

// runVersions has what one journal records about versions.
type runVersions struct {
	head    journal.Head
	wrote   []string       // the builds that have recorded something
	last    string         // the build that has executed it last
	markers map[string]int // by change
}

// A changeCount counts the versions of a change.
type changeCount struct {
	known  map[string]int // by build that has asked for the change: the highest number it decided
	open   map[int][]journal.RunID
	failed map[int]int
}

func newVersionCount(engines []store.Engine) *versionCount {
	c := &versionCount{
		living: map[string][]journal.EngineID{}, byBuild: map[[2]string]*Build{},
		changes: map[[2]string]*changeCount{},
	}
	for _, e := range engines {
		if e.Expired {
			continue
		}
		c.living[e.Build] = append(c.living[e.Build], e.ID)
	}
	return c
}

func (c *versionCount) add(h journal.Head, entries []journal.Entry) {
	r := runVersions{head: h, markers: map[string]int{}}
	for _, e := range entries {
		if e.Detail != nil && e.Detail.Build != "" {
			r.last = e.Detail.Build
		}
		if e.Kind == journal.RunStarted || e.Kind == journal.RunClaimed {
			continue
		}
		if !slices.Contains(r.wrote, r.last) {
			r.wrote = append(r.wrote, r.last)
		}
		if e.Kind == journal.VersionMarked {
			r.markers[e.Op.Name] = c.mark(h, e, r.last)
		}
	}
	open := h.Status.IsOpen()
	if open {
		c.byRun = append(c.byRun, r)
	}
	for change, version := range r.markers {
		x := c.changes[[2]string{h.Workflow, change}]
		if open {
			x.open[version] = append(x.open[version], h.ID)
		} else {
			x.failed[version]++
		}
	}
	switch b := c.build(h.Workflow, r.last); {
	case h.Status == journal.Pending: // no build has executed it
	case open:
		b.Open++
	default:
		b.Failed++
	}
}

// mark counts a marker, and returns its number.
func (c *versionCount) mark(h journal.Head, e journal.Entry, build string) int {
	key := [2]string{h.Workflow, e.Op.Name}
	x := c.changes[key]
	if x == nil {
		x = &changeCount{
			known: map[string]int{}, open: map[int][]journal.RunID{}, failed: map[int]int{},
		}
		c.changes[key] = x
	}
	x.known[build] = max(x.known[build], e.Detail.Version)
	return e.Detail.Version
}

func (c *versionCount) build(workflow, build string) *Build {
	key := [2]string{workflow, build}
	if c.byBuild[key] == nil {
		c.byBuild[key] = &Build{Workflow: workflow, Build: build, Engines: c.living[build]}
	}
	return c.byBuild[key]
}

// builds returns the builds of each workflow, and those that engines have.
func (c *versionCount) builds(partial bool) (out []Build) {
	workflows := map[string]bool{}
	for key := range c.byBuild {
		workflows[key[0]] = true
	}
	for workflow := range workflows {
		for build := range c.living {
			c.build(workflow, build)
		}
	}
	for _, b := range c.byBuild {
		if b.Open+b.Failed+len(b.Engines) == 0 {
			continue // it has started runs and executed none
		}
		switch {
		case b.Open > 0:
			b.Why = runs(b.Open, "open") + " would go on with another build"
		case partial:
			b.Why = notAll
		default:
			b.MayGo, b.Why = true, "no open run goes on with it"+afterAll(b.Failed)
		}
		out = append(out, *b)
	}
	slices.SortFunc(out, func(a, b Build) int {
		return cmp.Or(cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Build, b.Build))
	})
	return out
}

// markers returns for each change the versions from 0 to the highest one.
func (c *versionCount) markers(partial bool) (out []Marker) {
	for key, x := range c.changes {
		top := 0
		for _, known := range x.known {
			top = max(top, known)
		}
		for version := 0; version <= top; version++ {
			if m := c.marker(key, x, version); version == 0 || version == top ||
				len(m.Runs)+m.Failed > 0 {
				m.MayGo, m.Why = c.mayGo(m, x, top, partial)
				out = append(out, m)
			}
		}
	}
	slices.SortFunc(out, func(a, b Marker) int {
		return cmp.Or(cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Change, b.Change),
			cmp.Compare(a.Version, b.Version))
	})
	return out
}

func (c *versionCount) marker(key [2]string, x *changeCount, version int) Marker {
	m := Marker{
		Workflow: key[0], Change: key[1], Version: version, Runs: x.open[version],
		Failed: x.failed[version],
	}
	for _, r := range c.byRun {
		_, decided := r.markers[m.Change]
		if version == 0 && r.head.Workflow == m.Workflow && !decided &&
			slices.ContainsFunc(r.wrote, func(build string) bool {
				_, asks := x.known[build]
				return !asks
			}) {
			m.Undecided++
		}
	}
	return m
}

// mayGo reports whether the code of a version may go, and returns the reason.
func (c *versionCount) mayGo(m Marker, x *changeCount, top int, partial bool) (bool, string) {
	if len(m.Runs) > 0 {
		return false, "it is in " + runs(len(m.Runs), "open")
	}
	if m.Undecided > 0 {
		return false, runs(m.Undecided, "open") + " of older builds may still get it"
	}
	if partial {
		return false, notAll
	}
	for build, known := range x.known {
		if ids := c.living[build]; known == m.Version && len(ids) > 0 && m.Version > 0 {
			return false, fmt.Sprintf("new runs of engine %d get it", ids[0])
		}
	}
	if m.Version == top && top > 0 {
		return false, "it is the newest one: new runs get it"
	}
	return true, "no open run has it" + afterAll(m.Failed)
}

const notAll = "there are too many open runs to read them all"

func runs(n int, what string) string {
	text := fmt.Sprintf("%d %s run", n, what)
	if n != 1 {
		text += "s"
	}
	return text
}

// afterAll returns the text about failed runs.
func afterAll(failed int) string {
	if failed == 0 {
		return ""
	}
	return "; a retry of " + runs(failed, "failed") + " would need it"
}
