// Package rules has the rules that operators set while runs go on: the numbers of limits, and which
// workflows are paused. It is pure: it reads settings, and says what they change.
package rules

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure/store"
)

// A limit has the numbers of its setting; else those of the code; else, for a workflow without a
// limit, those of the default setting.

// The kinds of settings, and the name of the setting that limits have which have no other one.
const (
	LimitSetting = "limit"
	PauseSetting = "pause"
	// LoopSetting is set by an engine for a loop of its own that has stopped, under the name of
	// [Loop]. An operator who removes it lets the engine begin the loop again.
	LoopSetting  = "loop"
	AlertSetting = "alert"
	DefaultLimit = ""
)

// The limits in the store that a limit with a name consists of.
const (
	KeyLimit  = ":key"  // the slots of a key
	RateLimit = ":rate" // the tokens
	LockLimit = ":lock" // the slots of a semaphore
	OneLimit  = ":one"  // the slot of a singleton, or of the run that gathers starts
	ByLimit   = ":by"   // the slot of a run that has gathered starts; the key is its number
)

// LongestLimit is the length of the longest name of a limit.
const LongestLimit = store.MaxLimitName - len(RateLimit)

// The numbers of the slots of a run.
const (
	StartToken = -1
	KeySlot    = -2
	RunSlot    = -3
	OneSlot    = -4
	BySlot     = -5
)

// OwnPrefix is the prefix of the names of the workflows that an engine has by itself. No rule
// applies to them.
const OwnPrefix = "perdure."

// IsOwn reports whether a workflow is one that an engine has by itself.
func IsOwn(workflow string) bool { return strings.HasPrefix(workflow, OwnPrefix) }

// Loop returns the name of the setting for a loop of an engine.
func Loop(engine int64, loop string) string {
	return strconv.FormatInt(engine, 10) + ":" + loop
}

// A Workflow is a workflow with the limit that its code has.
type Workflow struct {
	Name    string
	Limited bool           // the code has a limit
	Limit   string         // its name; empty for that of the workflow
	Bounds  []store.Adjust // its numbers
}

// Bounds are the numbers that the setting of a limit has. Nil leaves the number unchanged, and zero
// means no limit.
type Bounds struct {
	Concurrency *int  `json:"concurrency,omitempty"`
	PerKey      *int  `json:"perKey,omitempty"`
	Rate        *Rate `json:"rate,omitempty"`
	Slots       *int  `json:"slots,omitempty"` // of a semaphore
}

// A Rate is a number of tokens in a span of time.
type Rate struct {
	Tokens int           `json:"tokens"`
	Per    time.Duration `json:"per"` // nanoseconds
	Burst  int           `json:"burst,omitempty"`
}

// Every returns the time in which a bucket gains a token, rounded up. Without a limit it is as
// short as can be.
func (r Rate) Every() time.Duration {
	if r.Tokens == 0 {
		return 1
	}
	return (r.Per-1)/time.Duration(r.Tokens) + 1 // no sum overflows
}

// Rules are the settings of a store as an engine knows them. They never change: other settings make
// other rules. The zero Rules have none.
type Rules struct {
	revision int64
	limits   map[string]*Bounds
	changed  map[string]int64 // limits that have or had a setting: its revision
	pauses   map[string]bool  // by workflow; the empty name is for all
	alerts   map[string]*alert
}

// Of returns the rules that settings make. A value that is not readable has no effect.
func Of(all []store.Setting) *Rules {
	x := &Rules{
		limits: map[string]*Bounds{}, changed: map[string]int64{}, pauses: map[string]bool{},
		alerts: map[string]*alert{},
	}
	for _, s := range all {
		x.revision = max(x.revision, s.Revision)
		if s.Kind == LimitSetting {
			x.changed[s.Name] = s.Revision
		}
		b := new(Bounds)
		switch {
		case s.Value == nil:
		case s.Kind == PauseSetting:
			x.pauses[s.Name] = true
		case s.Kind == AlertSetting:
			x.putAlert(s.Name, s.Value)
		case s.Kind == LimitSetting && json.Unmarshal(s.Value, b) == nil:
			x.limits[s.Name] = b
		}
	}
	return x
}

// Revision returns the last revision of a setting; 0 for none.
func (x *Rules) Revision() int64 { return x.revision }

// AnyPause reports whether any workflow is paused.
func (x *Rules) AnyPause() bool { return len(x.pauses) > 0 }

// IsPaused reports whether the runs of a workflow begin no steps.
func (x *Rules) IsPaused(workflow string) bool {
	return (x.pauses[workflow] || x.pauses[""]) && !IsOwn(workflow)
}

// boundsOf returns the setting that applies to the starts of a workflow, and the name of the limit.
func (x *Rules) boundsOf(w Workflow) (string, *Bounds) {
	name := cmp.Or(w.Limit, w.Name)
	if IsOwn(w.Name) || len(name) > LongestLimit {
		return name, nil
	}
	if b := x.limits[name]; b != nil || w.Limited {
		return name, b
	}
	return name, x.limits[DefaultLimit]
}

// revisionOf returns the revision of the numbers of a limit in the store: that of its setting, or
// of the last change from which on it has none. While it has none, the default may apply.
func (x *Rules) revisionOf(limit string) int64 {
	name := nameOf(limit)
	if x.limits[name] != nil {
		return x.changed[name]
	}
	return max(x.changed[name], x.changed[DefaultLimit])
}

// nameOf returns the name of the limit that a limit in the store is a part of.
func nameOf(limit string) string {
	for _, suffix := range []string{KeyLimit, RateLimit, LockLimit} {
		limit = strings.TrimSuffix(limit, suffix)
	}
	return limit
}

// HoldsBack reports whether the runs of a workflow are held back.
func (x *Rules) HoldsBack(w Workflow) bool {
	if w.Limited {
		return true
	}
	_, b := x.boundsOf(w)
	return b != nil && (b.Concurrency != nil || b.Rate != nil)
}

// Asks changes what a run asks for before its code is called: the numbers, and what only a setting
// asks for.
func (x *Rules) Asks(w Workflow, asks []store.Ask) []store.Ask {
	name, b := x.boundsOf(w)
	if b == nil {
		for i := range asks {
			asks[i].Revision = x.revisionOf(asks[i].Limit)
		}
		return asks
	}
	has := func(slot int64) bool {
		return slices.ContainsFunc(asks, func(a store.Ask) bool { return a.Slot == slot })
	}
	if b.Rate != nil && !has(StartToken) {
		at := 0
		if has(OneSlot) { // it is the first
			at = 1
		}
		asks = slices.Insert(asks, at, store.Ask{Slot: StartToken, Limit: name + RateLimit})
	}
	if b.Concurrency != nil && !has(RunSlot) {
		a := store.Ask{Slot: RunSlot, Limit: name}
		for _, other := range asks {
			a.Priority, a.Share = other.Priority, other.Share
		}
		asks = append(asks, a)
	}
	for i := range asks {
		b.apply(name, &asks[i])
		asks[i].Revision = x.revisionOf(asks[i].Limit)
	}
	return asks
}

// Changed returns an ask of a run with the numbers of the setting, if there is one.
func (x *Rules) Changed(a store.Ask) store.Ask {
	name := nameOf(a.Limit)
	if b := x.limits[name]; b != nil {
		b.apply(name, &a)
	}
	a.Revision = x.revisionOf(a.Limit)
	return a
}

// apply sets the numbers of an ask for a limit of that name.
func (b *Bounds) apply(name string, a *store.Ask) {
	for _, d := range b.adjusts(name) {
		if d.Limit == a.Limit {
			a.Max, a.Every, a.Burst = d.Max, d.Every, d.Burst
		}
	}
}

// adjusts returns the numbers as changes of the limits in the store.
func (b *Bounds) adjusts(name string) (all []store.Adjust) {
	for suffix, most := range map[string]*int{
		"": b.Concurrency, KeyLimit: b.PerKey, LockLimit: b.Slots,
	} {
		if most != nil {
			all = append(all, store.Adjust{Limit: name + suffix, Max: *most})
		}
	}
	if b.Rate != nil {
		all = append(all, store.Adjust{
			Limit: name + RateLimit, Every: b.Rate.Every(), Burst: max(b.Rate.Burst, 1),
		})
	}
	return all
}

// inForce returns the limits in the store that have numbers, of settings and of the workflows. A
// limit that begins to count the runs of a workflow has one for that workflow, too.
func (x *Rules) inForce(workflows []Workflow) map[store.Adjust]bool {
	all := map[string]store.Adjust{}
	out := map[store.Adjust]bool{}
	for _, w := range workflows {
		for _, a := range w.Bounds {
			all[a.Limit] = a
		}
	}
	put := func(name string, b *Bounds) {
		for _, a := range b.adjusts(name) {
			all[a.Limit] = a
		}
	}
	for _, w := range workflows {
		name, b := x.boundsOf(w)
		if b == nil {
			continue
		}
		put(name, b)
		counts := slices.ContainsFunc(w.Bounds, func(a store.Adjust) bool {
			return a.Limit == name
		})
		if b.Concurrency != nil && *b.Concurrency > 0 && !counts {
			out[store.Adjust{
				Limit: name, Max: *b.Concurrency, Workflow: w.Name, Slot: RunSlot,
			}] = true
		}
	}
	for name, b := range x.limits {
		if name != DefaultLimit {
			put(name, b)
		}
	}
	for _, a := range all {
		out[a] = true
	}
	return out
}

// Changes returns what the store has to be told when the rules change from old to x. If old is nil,
// it is not known which rules the store follows: then it is told the numbers of all limits that
// have or had a setting. A limit that no rule has any more is open only if its code is known, and
// has no number: that of a semaphore or a step comes with the next ask.
func (x *Rules) Changes(old *Rules, workflows []Workflow) (all []store.Adjust) {
	unknown := old == nil
	if unknown {
		old = Of(nil)
	}
	anew := func(limit string) bool { return unknown && x.changed[nameOf(limit)] > 0 }
	before, after := old.inForce(workflows), x.inForce(workflows)
	limited := map[string]bool{}
	for a := range after {
		if limited[a.Limit] = true; !before[a] || anew(a.Limit) {
			all = append(all, a)
		}
	}
	known := map[string]bool{}
	var gone []string
	for _, w := range workflows {
		name, _ := x.boundsOf(w)
		parts := []string{name, name + KeyLimit, name + RateLimit}
		for _, limit := range parts {
			known[limit] = true
		}
		byDefault := !w.Limited && !IsOwn(w.Name) && anew(DefaultLimit)
		if byDefault || anew(name) {
			gone = append(gone, parts...)
		}
	}
	for a := range before {
		gone = append(gone, a.Limit)
	}
	for _, limit := range gone {
		if limited[limit] || !known[limit] { // it has other numbers
			continue
		}
		limited[limit] = true
		open := store.Adjust{Limit: limit}
		if strings.HasSuffix(limit, RateLimit) {
			open.Every, open.Burst = Rate{}.Every(), 1
		}
		all = append(all, open)
	}
	for i := range all {
		all[i].Revision = x.revisionOf(all[i].Limit)
	}
	slices.SortFunc(all, func(a, b store.Adjust) int {
		return cmp.Or(cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Workflow, b.Workflow))
	})
	return all
}

// Shown returns the name of a limit in the store as people know it.
func Shown(limit string) string {
	for _, suffix := range []string{KeyLimit, OneLimit, ByLimit} {
		limit = strings.TrimSuffix(limit, suffix)
	}
	return limit
}
