package judge

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/torture/play"
	"github.com/perdure/perdure/internal/torture/program"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/limit"
	"github.com/perdure/perdure/store"
)

// ReadSlots reads which slots and tokens are held or waited for.
func ReadSlots(ctx context.Context, s store.Store) ([]store.Slot, error) {
	r := store.AbilitiesOf(s).SlotReader
	if r == nil {
		return nil, errors.New("the store does not show the slots of limits")
	}
	return r.Slots(ctx, store.SlotQuery{Count: store.MaxLimit})
}

// A hold is a time in which a run had a slot for certain: from an entry that came after the grant
// to one that came before the slot was freed.
type hold struct {
	from, to time.Time
	run      journal.RunID
}

// A token is a token of a rate: it was given between two times.
type token struct{ asked, used time.Time }

// limits judges slots and tokens when everything has ended.
func (b *bench) limits() {
	for _, s := range b.Slots {
		b.wrong("a slot or token of limit %s[%s] is left: run %d, held: %v", s.Limit, s.Key, s.Run,
			s.Held)
	}
	holds, tokens := map[string][]hold{}, map[string][]token{}
	for _, r := range b.Runs {
		b.guarded(r, holds)
		if limit, key := limitOf(r); limit != "" {
			h, ok := admitted(r)
			if !ok {
				continue
			}
			holds[limit] = append(holds[limit], h)
			if key != "" {
				name := limit + "[" + key + "]"
				holds[name] = append(holds[name], h)
				if origin := journal.OriginOf(r.Entries[0].Detail); origin.Run == "" {
					tokens[name] = append(tokens[name], token{r.Head.Created, h.from})
				}
			}
		}
		b.rated(r, tokens)
	}
	for name, all := range holds {
		b.crowd(name, all)
	}
	for name, all := range tokens {
		rate := play.Calls.Rate
		if strings.HasPrefix(name, play.Narrows.Name) {
			rate = play.Narrows.Rate
		}
		b.flood(name, all, rate)
	}
}

// slotsOf returns how many slots a limit has for each key.
func slotsOf(name string) int {
	limit, key, _ := strings.Cut(name, "[")
	switch {
	case limit == play.Narrows.Name && key != "":
		return play.Narrows.PerKey
	case limit == play.Narrows.Name:
		return play.Narrows.Concurrency
	case limit == play.Declared.Name:
		return play.Declared.Concurrency
	case limit == play.Region.Name:
		return play.Region.Slots
	}
	return 1
}

// limitOf returns the limit that a run counts for, and its key.
func limitOf(r *Run) (name, key string) {
	if f, ok := program.DeclarationOf(r.Head.Workflow); ok && f.IsLimited() {
		return play.Declared.Name, ""
	}
	if r.Head.Workflow != play.Narrows.Name || len(r.Entries) == 0 {
		return "", ""
	}
	var in play.Narrow
	_ = json.Unmarshal(r.Entries[0].Data, &in)
	return r.Head.Workflow, in.Key
}

// admitted returns the time in which the code of a run was under way. A run that is cancelled
// before it has its slots cleans up without them.
func admitted(r *Run) (h hold, ok bool) {
	last := r.Entries[len(r.Entries)-1]
	for _, e := range r.Entries {
		switch {
		case e.Kind == journal.RunClosing || e.Kind.EndsRun() || e.Status == journal.Compensating:
			return hold{}, false
		case e.Op.IsZero() || r.keeps(e): // not by the code of this run
		default:
			return hold{e.At, last.At, r.Head.ID}, last.Kind.EndsRun()
		}
	}
	return hold{}, false
}

// keeps reports whether an entry is of the run that this one goes on from.
func (r *Run) keeps(e journal.Entry) bool {
	return !e.At.After(r.Head.Created) && journal.OriginOf(r.Entries[0].Detail).Run != ""
}

// guarded adds the times in which a run was in a part of its code that a semaphore guards.
func (b *bench) guarded(r *Run, holds map[string][]hold) {
	in := map[int64]journal.Entry{} // the last entry about a slot, by scope
	for _, e := range r.Entries {
		switch {
		case e.Kind == journal.SlotTaken, e.Kind == journal.SlotFreed:
			in[e.Op.Scope] = e
		case r.keeps(e):
		case e.Kind == journal.StepCompleted && strings.HasSuffix(e.Op.Name, play.StepOut):
			taken := in[e.Op.Scope]
			if taken.Kind != journal.SlotTaken {
				b.wrong("run %s of %s was in the region of %s without a slot", r.Head.ID,
					r.Head.WorkflowID, e.Op.Name)
				continue
			}
			name := taken.Op.Name + "[" + taken.Op.Key + "]"
			holds[name] = append(holds[name], hold{taken.At, e.At, r.Head.ID})
		}
	}
}

// crowd judges how many runs had a slot at a time.
func (b *bench) crowd(name string, all []hold) {
	type change struct {
		at time.Time
		by int
	}
	var changes []change
	for _, h := range all {
		if h.to.After(h.from) {
			changes = append(changes, change{h.from, 1}, change{h.to, -1})
		}
	}
	slices.SortFunc(changes, func(x, y change) int {
		if c := x.at.Compare(y.at); c != 0 {
			return c
		}
		return x.by - y.by
	})
	n, most := 0, 0
	var when time.Time
	for _, c := range changes {
		if n += c.by; n > most {
			most, when = n, c.at
		}
	}
	if most <= slotsOf(name) {
		return
	}
	var who []journal.RunID
	for _, h := range all {
		if !h.from.After(when) && h.to.After(when) {
			who = append(who, h.run)
		}
	}
	b.wrong("%d runs had a slot of limit %s at a time: %v", most, name, who)
}

// rated adds the tokens by which a run began attempts of steps.
func (b *bench) rated(r *Run, tokens map[string][]token) {
	if !slices.ContainsFunc(r.Entries, func(e journal.Entry) bool {
		return e.Kind == journal.StepHeld
	}) {
		return
	}
	var calls []Call
	for _, c := range b.Calls {
		if c.Run == string(r.Head.ID) {
			calls = append(calls, c)
		}
	}
	used := map[int64]bool{}
	for _, e := range r.Entries {
		if e.Kind != journal.StepHeld || e.Detail.Reason == "" || r.keeps(e) {
			continue
		}
		i := slices.IndexFunc(calls, func(c Call) bool {
			return strings.HasSuffix(c.Step, e.Op.String()) && !c.Began.Before(e.At) &&
				c.Tries == max(e.Detail.Attempt, 1) && !used[c.Gave]
		})
		if i < 0 {
			continue // it was cancelled, or its engine died before the call
		}
		used[calls[i].Gave] = true
		name := e.Detail.Reason + "[" + play.CallKey(e.Op.Name) + "]"
		tokens[name] = append(tokens[name], token{e.At, calls[i].Began})
	}
}

// slack is the most by which clocks of one machine differ here.
const slack = 5 * time.Millisecond

// flood judges how many tokens were given in a span of time: in no span are there more than the
// bucket has and gains.
func (b *bench) flood(name string, all []token, rate limit.Rate) {
	every := rate.Per / time.Duration(rate.Tokens)
	for _, first := range all {
		var used []time.Time
		for _, t := range all {
			if !t.asked.Before(first.asked) {
				used = append(used, t.used)
			}
		}
		slices.SortFunc(used, time.Time.Compare)
		for i, at := range used {
			span := at.Sub(first.asked)
			if most := rate.Burst + int((span+slack)/every); i+1 > most {
				b.wrong("limit %s gave %d tokens in %v: at most %d are right", name, i+1, span,
					most)
				return
			}
		}
	}
}
