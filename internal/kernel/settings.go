package kernel

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/perdure/perdure/internal/lock"
	"github.com/perdure/perdure/internal/rules"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Operators set rules while runs go on: package internal/rules has their meaning. The store keeps
// them as settings. An engine reads the settings when it joins, and when a claim returns a revision
// that it does not know. If limits have other numbers then, it changes them in the store, so that
// they hold for runs that wait, too. So does each other engine, for the workflows that it has.
//
// An operator may pause a workflow. Its runs begin no step then: steps in flight end, and their
// results are recorded. A run that has come to a step leaves memory, due at once. No engine claims
// runs of a workflow that is paused, so it is claimed when the pause is over. A start of a workflow
// that is paused makes a run that is not loaded. A run with an order of an operator, or of its
// parent, is loaded all the same.
//
// The journal has no pause. But a step whose first attempt has an entry of its own gets an entry
// when it is held back, since entries are in the order in which the code asks for steps.

// An obedience makes an engine obey the settings.
//
// The mutex is held while limits are changed, so that the last numbers are those of the last rules.
type obedience struct {
	k         *Kernel
	adjusting lock.Lock
	obeyed    *rules.Rules // those that the limits in the store follow; nil if not known
	learnt    bool         // it has learned rules before
	outran    atomic.Bool  // a commit has outrun the rules, and adjust has not heard of it
}

// learn makes rules of the settings, and obeys them: it changes the limits that have
// other numbers now, and begins the steps that a pause has held back.
func (o *obedience) learn(all []store.Setting) {
	k := o.k
	k.loops.beginAgain(all)
	x := rules.Of(all)
	old := k.rules.Swap(x)
	before := old
	if !o.learnt { // whatever an earlier kernel knew, it may not have told the store
		o.learnt, before = true, nil
	}
	if len(x.Changes(before, k.limited())) > 0 {
		go o.adjust()
	}
	if old.AnyPause() {
		o.goOn()
		k.look()
	}
}

// adjust changes limits in the store, to the numbers that the engine knows last. If the engine is
// over before that, the next one does it when it joins, also for settings that are gone by then.
//
// A run notes the rules under which it begins or asks. If they are not the newest when that is
// durable, the store may have counted without the run, and may have made a limit with older
// numbers. Then all limits are written once more. An engine that dies in between leaves a run
// uncounted.
func (o *obedience) adjust() {
	k := o.k
	if !o.adjusting.LockOr(k.dead, nil) {
		return
	}
	defer o.adjusting.Unlock()
	from := o.obeyed
	if o.outran.Swap(false) {
		from = nil
	}
	now := k.rules.Load()
	if !o.write(now.Changes(from, k.limited())) {
		return
	}
	o.obeyed = now
	k.look()
}

// outrun is called when a commit is durable by which a run has begun, or asked for slots. If the
// rules have changed since the run looked at them, the limits are adjusted once more.
func (o *obedience) outrun(under *rules.Rules) {
	if under != o.k.rules.Load() && !o.outran.Swap(true) {
		go o.adjust()
	}
}

// write writes changes of limits. It reports whether the engine still lives.
func (o *obedience) write(all []store.Adjust) bool {
	if len(all) == 0 {
		return true
	}
	return o.k.persist(func() error {
		_, err := o.k.submit(context.Background(), "change limits", []store.Change{{Adjusts: all}})
		return err
	}) == nil
}

// relearn reads the settings again if there are others than the engine knows.
func (o *obedience) relearn(revision int64) error {
	k := o.k
	if revision == k.rules.Load().Revision() {
		return nil
	}
	info, err := brief(context.Background(), k.store)
	if err != nil {
		return err
	}
	o.learn(info.Settings)
	return nil
}

// brief returns the description of a store, if its settings are readable: an engine that does not
// understand a rule must not go on as if there was none.
func brief(ctx context.Context, s store.Store) (store.Info, error) {
	info, err := store.Brief(ctx, s)
	for i := range info.Settings {
		if t := &info.Settings[i]; bytes.HasPrefix(t.Value, []byte(journal.EncodedPrefix)) {
			return store.Info{}, fmt.Errorf("%w: %q of kind %q", store.ErrEncoded, t.Name, t.Kind)
		}
	}
	return info, err
}

// holdWhilePaused keeps the next attempt of a step from beginning while the workflow is paused. It
// reports whether it does.
func holdWhilePaused(o *operation, announced bool) bool {
	r := o.run
	if r.def == nil || !r.k.rules.Load().IsPaused(r.def.Name) {
		return false
	}
	r.operations.begin(o)
	o.announced = announced
	if o.tries == 0 && (announced || o.work.Limit != nil) {
		hold(o)
	}
	r.operations.pause(o)
	o.wait()
	return true
}

// goOn begins the attempts that a pause has held back, of runs that are here still.
func (o *obedience) goOn() {
	k := o.k
	for _, r := range k.loadedRuns() {
		r.mu.Lock()
		if r.def != nil && !r.gone() && !k.rules.Load().IsPaused(r.def.Name) {
			held := r.operations.takePaused()
			for _, op := range held {
				op.waited()
				op.try(op.announced)
			}
			if len(held) > 0 {
				r.dispatch()
			}
		}
		r.mu.Unlock()
	}
}

// PutSetting makes a setting durable. All engines obey it soon.
func PutSetting(ctx context.Context, d *FrontEnd, op string, s store.Setting) error {
	s.At = d.Now()
	return d.write(ctx, op, func(o writer) error {
		_, err := o.submit(ctx, op, []store.Change{{Settings: []store.Setting{s}}})
		if k, isEngine := o.(*Kernel); isEngine && err == nil {
			k.look() // it hears of the setting then
		}
		return err
	})
}

// Settings returns the settings of a kind, by name.
func Settings(ctx context.Context, d *FrontEnd, kind string) ([]store.Setting, error) {
	info, err := brief(ctx, d.store)
	if err != nil {
		return nil, unavailable("read settings", err)
	}
	all := slices.DeleteFunc(info.Settings, func(s store.Setting) bool {
		return s.Kind != kind || s.Value == nil
	})
	slices.SortFunc(all, func(a, b store.Setting) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}
