package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/rules"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/limit"
	"github.com/perdure/perdure/store"
)

// A Note is the author of a change and the reason for it. Both may be empty, and have at most 255
// bytes of text.
type Note struct {
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Validate returns an error of code invalid if a text is not valid.
func (n Note) Validate() error { return n.check("note") }

func (n Note) check(op string) error {
	for _, text := range []string{n.By, n.Reason} {
		if len(text) > 255 || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return failure.Invalid(op, "the author or the reason is not valid: allowed are texts "+
				"of at most 255 bytes")
		}
	}
	return nil
}

// DefaultLimit is the name of the limit of workflows that have no other one.
const DefaultLimit = rules.DefaultLimit

// A Limit is a limit that an operator has set, or that runs hold or wait for.
type Limit struct {
	Name string
	// Set is nil if no operator has set the limit.
	Set  *limit.Bounds
	Note Note
	At   time.Time // when it was set
	// Uses are the slots of the limit, for each key that runs have or wait for.
	Uses []LimitUse
}

// A LimitUse describes the slots of a limit for a key.
type LimitUse struct {
	// Of is "runs", "key", "rate" or "lock"; or "one" for the one run of a singleton, or that
	// gathers starts, and those in line to join or replace it.
	Of      string
	Key     string
	Slots   int   // 0 for without a limit
	Used    int64 // slots that runs hold; of a rate, the tokens that are given for later
	Waiting int64 // runs in line
}

// SetLimit sets the numbers of a limit for all engines, also for runs that wait: they get the slots
// that become free by it. Fewer slots take none away. The name is that of a limit.Control, which is
// the name of its workflow if the code has no other, or that of a limit.Semaphore.
//
// A workflow without a limit.Control has a limit with its own name, so SetLimit also limits
// workflows whose code knows no limits. Runs that have begun are counted then. [DefaultLimit] is
// for all workflows that have neither a limit.Control nor a limit of their name.
//
// The numbers replace all that were set before, and are durable on return. Engines obey them within
// the time that they need to hear of a message.
func (a *Client) SetLimit(ctx context.Context, name string, b limit.Bounds, by Note) error {
	op := "set limit " + shown(name)
	if err := checkSetting(op, name, by); err != nil {
		return err
	}
	if rules.IsOwn(name) {
		return failure.Invalid(op, "names that begin with %s are of the engine's own workflows, "+
			"which have no limits", kernel.OwnPrefix)
	}
	if len(name) > rules.LongestLimit {
		return failure.Invalid(op, "the name of a limit is not valid: allowed are names of at "+
			"most %d bytes", rules.LongestLimit)
	}
	bounds, err := b.Sealed(op, name == DefaultLimit)
	if err != nil {
		return err
	}
	value, err := json.Marshal(bounds)
	if err != nil {
		return failure.Invalid(op, "%v", err)
	}
	return a.set(ctx, op, rules.LimitSetting, name, value, by)
}

// ResetLimit makes the numbers of the code hold again. It does nothing if none are set. Runs that
// wait for a limit of a step, or a semaphore, keep the number that was set until the next run asks.
// If no engine runs, those in line for a workflow keep it until the next engine joins.
func (a *Client) ResetLimit(ctx context.Context, name string, by Note) error {
	op := "reset limit " + shown(name)
	if err := checkSetting(op, name, by); err != nil {
		return err
	}
	return a.set(ctx, op, rules.LimitSetting, name, nil, by)
}

func (a *Client) set(ctx context.Context, op, kind, name string, value []byte, by Note) error {
	return kernel.PutSetting(ctx, a.client.FrontEnd, op, store.Setting{
		Kind: kind, Name: name, Value: value, By: by.By, Reason: by.Reason,
	})
}

func shown(name string) string { return cmp.Or(name, "for all") }

func checkSetting(op, name string, by Note) error {
	if name != "" && !journal.ValidName(name) {
		return failure.Invalid(op, "the name is not valid: allowed are 1 to 255 of "+
			"A-Z a-z 0-9 . _ : -")
	}
	return by.check(op)
}

// pagesOfLimits is how often Limits reads the store, 1,000 limits and keys at a time.
const pagesOfLimits = 20

// Limits returns the limits that operators have set, and those that runs hold or wait for, by name.
// Of a limit with many keys it returns at most the first 1,000, and at most 20,000 of all.
func (a *Client) Limits(ctx context.Context) ([]Limit, error) {
	set, err := kernel.Settings(ctx, a.client.FrontEnd, rules.LimitSetting)
	if err != nil {
		return nil, err
	}
	slots, err := a.totals(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]*Limit{}
	at := func(name string) *Limit {
		if all[name] == nil {
			all[name] = &Limit{Name: name}
		}
		return all[name]
	}
	for _, s := range set {
		l := at(s.Name)
		var b rules.Bounds
		if err := json.Unmarshal(s.Value, &b); err != nil {
			return nil, failure.Invalid("list limits", "the setting of limit %s is not readable: "+
				"set it anew, or reset it", shown(s.Name))
		}
		bounds := limit.BoundsOf(b)
		l.Set, l.Note, l.At = &bounds, Note{s.By, s.Reason}, s.At
	}
	for _, s := range slots {
		if name, of := split(s.Limit); of != "" {
			l := at(name)
			l.Uses = append(l.Uses, LimitUse{
				Of: of, Key: s.Key, Slots: s.Max, Used: s.Used, Waiting: s.Line,
			})
		}
	}
	var out []Limit
	for _, l := range all {
		out = append(out, *l)
	}
	slices.SortFunc(out, func(a, b Limit) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// totals returns what is used of the limits. A limit with more keys than a page does not keep those
// after it out.
func (a *Client) totals(ctx context.Context) (all []store.Slot, err error) {
	q := store.SlotQuery{Totals: true, Count: store.MaxLimit}
	for range pagesOfLimits {
		page, err := a.client.FrontEnd.Slots(ctx, q)
		if err != nil {
			return nil, err
		}
		if all = append(all, page...); len(page) < store.MaxLimit {
			break
		}
		q.After = page[len(page)-1].Limit
	}
	return all, nil
}

// A LimitRun is a run that has a slot or token of a limit, or waits in line for a slot.
type LimitRun struct {
	Run   journal.Head
	Key   string
	Held  bool
	Place int64     // in line: 1 is the first; 0 if it does not wait there
	Since time.Time // when it asked
	Due   time.Time // of a token that is given for later
}

// LimitRuns returns runs that have or wait for a part of a limit, which is an Of of [LimitUse]: for
// each key those that have slots first, then those in line in their order. It returns the first n
// of them, 1 to 1,000.
func (a *Client) LimitRuns(ctx context.Context, name, of string, n int) ([]LimitRun, error) {
	op := "show limit " + name
	part, known := parts[of]
	switch {
	case !journal.ValidName(name):
		return nil, failure.BadName("limit", name)
	case !known:
		return nil, failure.Invalid(op, "the part is not valid: allowed are runs, key, rate, "+
			"lock and one")
	case n < 1 || n > store.MaxLimit:
		return nil, failure.Invalid(op, "%d runs is not valid: allowed are 1 to %d", n,
			store.MaxLimit)
	}
	front := a.client.FrontEnd
	slots, err := front.Slots(ctx, store.SlotQuery{Limit: name + part, Count: n})
	if err != nil || len(slots) == 0 {
		return nil, err
	}
	info, err := front.Info(ctx)
	if err != nil {
		return nil, err
	}
	ids := make([]journal.RunID, len(slots))
	for i, s := range slots {
		ids[i] = journal.MakeRunID(info.Database, s.Run)
	}
	heads, _, err := front.Heads(ctx, store.Filter{Runs: ids, Limit: store.MaxLimit})
	if err != nil {
		return nil, err
	}
	byNumber := map[journal.Number]journal.Head{}
	for _, h := range heads {
		byNumber[h.Number] = h
	}
	var out []LimitRun
	for _, s := range slots {
		if h, found := byNumber[s.Run]; found {
			out = append(out, LimitRun{
				Run: h, Key: s.Key, Held: s.Held, Place: s.Place, Since: s.Since, Due: s.Due,
			})
		}
	}
	return out, nil
}

// parts has what the names of limits in the store end with.
var parts = map[string]string{
	"runs": "", "key": rules.KeyLimit, "rate": rules.RateLimit, "lock": rules.LockLimit,
	"one": rules.OneLimit,
}

// split returns the name of a limit in the store as two parts. The second one is empty for a limit
// that nobody knows.
func split(name string) (limit, of string) {
	for _, suffix := range []string{
		rules.KeyLimit, rules.RateLimit, rules.LockLimit, rules.OneLimit,
	} {
		if base, ok := strings.CutSuffix(name, suffix); ok {
			return base, suffix[1:]
		}
	}
	if strings.HasSuffix(name, rules.ByLimit) {
		return name, ""
	}
	return name, "runs"
}
