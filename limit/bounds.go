package limit

import (
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/rules"
)

// Bounds are the numbers of a limit that an operator sets while runs go on: see
// [github.com/perdure/perdure/admin.Client.SetLimit]. Nil leaves the number of the code unchanged.
// Zero, or a Rate without Tokens, means that there is no such limit.
type Bounds struct {
	Concurrency *int
	// PerKey needs a Key in code, and a PerKey there that it replaces.
	PerKey *int
	Rate   *Rate
	Slots  *int // of a Semaphore
}

// Sealed is for package admin. It returns the bounds as the engine reads them, or an error of code
// invalid. isDefault is set for the numbers of workflows that have no others.
func (b Bounds) Sealed(op string, isDefault bool) (rules.Bounds, error) {
	out := rules.Bounds{Concurrency: b.Concurrency, PerKey: b.PerKey, Slots: b.Slots}
	for name, n := range map[string]*int{
		"Concurrency": b.Concurrency, "PerKey": b.PerKey, "Slots": b.Slots,
	} {
		if n != nil && *n < 0 {
			return out, failure.Invalid(op, "%s of %d is not valid: allowed are 0, for no limit, "+
				"and above", name, *n)
		}
	}
	switch {
	case b == Bounds{}:
		return out, failure.Invalid(op, "the limit has no number: set one, or reset the limit")
	case isDefault && (b.PerKey != nil || b.Slots != nil):
		return out, failure.Invalid(op, "the default limit has a Concurrency and a Rate only")
	}
	if b.Rate == nil {
		return out, nil
	}
	r := *b.Rate
	if r.Tokens == 0 {
		r = Rate{}
	}
	if wrong := r.check(); wrong != "" {
		return out, failure.Invalid(op, "%s", wrong)
	}
	rate := rules.Rate(r)
	out.Rate = &rate
	return out, nil
}

// BoundsOf is for package admin. It returns the bounds of a setting.
func BoundsOf(b rules.Bounds) Bounds {
	out := Bounds{Concurrency: b.Concurrency, PerKey: b.PerKey, Slots: b.Slots}
	if b.Rate != nil {
		rate := Rate(*b.Rate)
		out.Rate = &rate
	}
	return out
}
