package patterns

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
)

// A limiterCall is one call of a limiter: a question for room, or the end of one task.
type limiterCall struct {
	asked   bool
	running int
	now     time.Time
	ended   error

	room int // the answer to the question
	err  error
}

// A limiterUse is one use of a policy by a caller that obeys it and acts at random.
type limiterUse struct {
	t       *testing.T
	rng     *rand.Rand
	policy  backpressure.Policy
	limiter backpressure.Limiter
	now     time.Time
	running int
	past    []limiterCall
	met     map[string]int // number of situations by name, so that the test knows its coverage
}

// limiterCrowd is the number of tasks that run at a time if there is no limit.
const limiterCrowd = 40

// usePolicy uses a policy for a while.
func usePolicy(t *testing.T, rng *rand.Rand, p backpressure.Policy,
	met map[string]int) *limiterUse {
	u := &limiterUse{t: t, rng: rng, policy: p, limiter: p.Begin(), now: limiterBegan, met: met}
	rules := limiterRulesOf(p)
	bad := 0.0 // the share of failures among the ends
	for range 30 {
		if rng.IntN(8) == 0 {
			bad = []float64{0, 0.03, 0.07, 0.2, 1}[rng.IntN(5)]
		}
		u.now = u.now.Add([]time.Duration{
			0, 1, time.Second, 7 * time.Second, time.Minute,
		}[rng.IntN(5)])
		n := u.ask(rules)
		for range min(n, limiterCrowd-u.running) {
			if rng.IntN(20) == 0 {
				break // there are not that many
			}
			u.running++
			if rules.begun != nil {
				rules.begun(u)
			}
			if rng.IntN(4) == 0 && u.running < limiterCrowd {
				if u.ask(rules) <= 0 { // one by one, too
					break
				}
			}
		}
		for range rng.IntN(2 + u.running*rng.IntN(2)) {
			u.end(bad)
		}
	}
	return u
}

// ask asks whether more may begin, and checks the answer.
func (u *limiterUse) ask(r limiterRules) int {
	n, err := u.limiter.Room(u.running, u.now)
	h := limiterCall{asked: true, running: u.running, now: u.now, room: n, err: err}
	u.past = append(u.past, h)
	want, refused := r.model(u.past, u.running)
	switch {
	case u.running == 0 && n <= 0 && err == nil:
		u.fault("nothing runs, and nothing may begin")
	case (err != nil) != refused:
		u.fault("it says %v, the model that it refuses: %v", err, refused)
	case err == nil && max(n, 0) != max(want, 0):
		u.fault("the room is %d, of the model %d", n, want)
	case r.answered != nil:
		r.answered(u, h)
	}
	if err != nil {
		return 0
	}
	return n
}

// end ends one task, if any task runs.
func (u *limiterUse) end(bad float64) {
	if u.running == 0 {
		return
	}
	h := limiterCall{now: u.now}
	if u.rng.Float64() < bad {
		h.ended = world.ErrOdd
	}
	u.limiter.Ended(h.ended, u.now)
	u.running--
	u.past = append(u.past, h)
}

func (u *limiterUse) fault(format string, args ...any) {
	u.t.Helper()
	u.t.Fatalf("%T%+v, %d run, call %d: %s\n%s", u.policy, u.policy, u.running, len(u.past),
		fmt.Sprintf(format, args...), limiterStory(u.past))
}

// limiterStory returns the calls as text: the number of running tasks before a question, s for a
// success, f for a failure.
func limiterStory(past []limiterCall) string {
	var b strings.Builder
	for _, h := range past {
		switch {
		case h.asked && h.err != nil:
			fmt.Fprintf(&b, " %v:%d?no", h.now.Sub(limiterBegan), h.running)
		case h.asked:
			fmt.Fprintf(&b, " %v:%d?%d", h.now.Sub(limiterBegan), h.running, h.room)
		case h.ended != nil:
			b.WriteString(" f")
		default:
			b.WriteString(" s")
		}
	}
	return b.String()
}

// limiterRules are the rules of a policy.
type limiterRules struct {
	// model returns the answer to the last question, computed from all calls so far.
	model    func(past []limiterCall, running int) (room int, refused bool)
	begun    func(u *limiterUse)                // checks a task that has just begun; may be nil
	answered func(u *limiterUse, h limiterCall) // checks an answer; may be nil
}

// orElse returns n, or otherwise if n is the zero value.
func orElse[T comparable](n, otherwise T) T {
	var zero T
	if n == zero {
		return otherwise
	}
	return n
}

func limiterRulesOf(p backpressure.Policy) limiterRules {
	if p.(interface{ Validate() error }).Validate() != nil {
		return limiterRulesOfNone()
	}
	switch p := p.(type) {
	case backpressure.Limit:
		return limiterRulesOfAtMost(int(p))
	case backpressure.Adaptive:
		return limiterRulesOfAdaptive(p)
	case backpressure.Batched:
		return limiterRulesOfBatched(orElse(p.Size, 10))
	case backpressure.CircuitBreaker:
		return limiterRulesOfBreaker(orElse(p.Failures, 5), orElse(p.Recovery, 30*time.Second),
			orElse(p.Successes, 3))
	}
	return limiterRules{}
}

// limiterRulesOfNone are the rules of an invalid policy: it refuses everything.
func limiterRulesOfNone() limiterRules {
	return limiterRules{
		model: func([]limiterCall, int) (int, bool) { return 0, true },
		answered: func(u *limiterUse, h limiterCall) {
			u.met["cannot be"]++
			if journal.CodeOf(h.err) != journal.CodeInvalid {
				u.fault("it says %v", h.err)
			}
		},
	}
}

func limiterRulesOfAtMost(n int) limiterRules {
	return limiterRules{
		model: func(_ []limiterCall, running int) (int, bool) {
			return orElse(n, math.MaxInt) - running*min(n, 1), false
		},
		begun: func(u *limiterUse) { u.atMost(orElse(n, limiterCrowd)) },
	}
}

// atMost checks that at most n tasks run.
func (u *limiterUse) atMost(n int) {
	if u.running > n {
		u.fault("more than %d run", n)
	}
}

// limiterRulesOfAdaptive divides all ends into tens, and uses their failures.
func limiterRulesOfAdaptive(a backpressure.Adaptive) limiterRules {
	lowest, highest, every, halve := orElse(a.Min, 1), orElse(a.Max, 16), orElse(a.Every, 10),
		orElse(a.Halve, 0.1)
	limit := func(met map[string]int, past []limiterCall) int {
		at := orElse(a.Start, min(max(4, lowest), highest))
		ends := slices.DeleteFunc(slices.Clone(past), func(h limiterCall) bool { return h.asked })
		for tens := range slices.Chunk(ends, every) {
			failed := float64(len(slices.DeleteFunc(slices.Clone(tens), func(h limiterCall) bool {
				return h.ended == nil
			})))
			switch {
			case len(tens) < every:
			case failed > halve*float64(every):
				met["halved"]++
				if at /= 2; at <= lowest {
					at = lowest
					met["fewest"]++
				}
			case failed < orElse(a.Grow, halve/2)*float64(every):
				met["grown"]++
				if at++; at > highest {
					at = highest
					met["most"]++
				}
			}
		}
		return at
	}
	return limiterRules{
		model: func(past []limiterCall, running int) (int, bool) {
			return limit(map[string]int{}, past) - running, false
		},
		begun:    func(u *limiterUse) { u.atMost(highest) },
		answered: func(u *limiterUse, _ limiterCall) { limit(u.met, u.past) },
	}
}

// limiterRulesOfBatched looks back to the start of the batch: at that time nothing ran.
func limiterRulesOfBatched(size int) limiterRules {
	began, from := 0, 0 // tasks begun in the batch; the start of the batch in past
	return limiterRules{
		model: func(past []limiterCall, running int) (int, bool) {
			for i := len(past) - 1; !past[i].asked || past[i].running > 0; i-- {
				if !past[i].asked {
					return 0, false
				}
			}
			return size - running, false
		},
		begun: func(u *limiterUse) {
			if u.running == 1 {
				began, from = 0, len(u.past)
			}
			began++
			if slices.ContainsFunc(u.past[from:], func(h limiterCall) bool { return !h.asked }) {
				u.fault("one begins in a batch of which one has ended")
			}
			if began > size {
				u.fault("%d begin in a batch", began)
			}
			if u.met["batch"]++; began == size {
				u.met["full batch"]++
			}
		},
	}
}

// limiterRulesOfBreaker reads the ends since the last change of state as a word.
func limiterRulesOfBreaker(failures int, recovery time.Duration, successes int) limiterRules {
	state := func(past []limiterCall) (name, word string, since time.Time) {
		name = "closed"
		for _, h := range past {
			switch {
			case h.asked && name == "open" && h.now.Sub(since) >= recovery:
				name, word = "half-open", ""
			case h.asked || name == "open":
			case h.ended != nil:
				if word += "f"; name == "half-open" ||
					strings.HasSuffix(word, strings.Repeat("f", failures)) {
					name, since = "open", h.now
				}
			default:
				if word += "s"; name == "half-open" && len(word) == successes {
					name, word = "closed", ""
				}
			}
		}
		return name, word, since
	}
	left := func(word string) int {
		return failures - len(word) + len(strings.TrimRight(word, "f"))
	}
	return limiterRules{
		model: func(past []limiterCall, running int) (int, bool) {
			name, word, _ := state(past)
			switch name {
			case "open":
				return 0, true
			case "half-open":
				return successes - len(word) - running, false
			}
			return left(word) - running, false
		},
		begun: func(u *limiterUse) {
			name, word, _ := state(u.past)
			u.met[name]++
			switch name {
			case "open":
				u.fault("one begins while it is open")
			case "half-open":
				u.atMost(successes - len(word))
			default:
				u.atMost(left(word))
			}
		},
		answered: func(u *limiterUse, h limiterCall) {
			var open *backpressure.OpenError
			if h.err == nil {
				return
			}
			u.met["open"]++
			_, _, since := state(u.past)
			if !errors.As(h.err, &open) || !open.Since.Equal(since) ||
				!open.Until.Equal(since.Add(recovery)) || !h.now.Before(open.Until) {
				u.fault("open since %v: %v", since, h.err)
			}
		},
	}
}

// somePolicy returns a policy of a random kind. Some are invalid.
func somePolicy(rng *rand.Rand) backpressure.Policy {
	n := func(most int) int { return rng.IntN(most+2) - rng.IntN(10)/9 } // sometimes one too few
	some := func(x float64) float64 { return x * float64(rng.IntN(2)) }
	switch rng.IntN(5) {
	case 0:
		return backpressure.Limit(n(6))
	case 1:
		return backpressure.Batched{Size: n(12)}
	case 2:
		return backpressure.CircuitBreaker{
			Failures: n(4), Recovery: time.Duration(n(9)) * time.Second, Successes: n(4),
		}
	case 3:
		return backpressure.Adaptive{Start: n(6), Min: n(3), Max: n(9), Every: n(12)}
	default:
		halve := some(rng.Float64())
		return backpressure.Adaptive{
			Halve: halve, Grow: some(orElse(halve, 0.1) * rng.Float64()), Every: n(6),
		}
	}
}

// In every situation a policy answers like its model. When nothing runs, there is room or an
// error. No more tasks run than are allowed. Batches do not overlap. Nothing begins while a breaker
// is open, and few tasks while it is half-open. Two uses do not affect each other, and the same
// calls have the same answers.
//
// spec: P-12
func TestPoliciesDoAsTheirModels(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 12))
	met := map[string]int{}
	for range 600 {
		p := somePolicy(rng)
		first := usePolicy(t, rng, p, met)
		other, again := p.Begin(), p.Begin()
		for _, h := range first.past {
			other.Ended(world.ErrOdd, h.now)
			if !h.asked {
				again.Ended(h.ended, h.now)
				continue
			}
			if n, err := again.Room(h.running, h.now); n != h.room ||
				!reflect.DeepEqual(err, h.err) {
				first.fault("called the same again, it says %d %v, and said %d %v", n, err, h.room,
					h.err)
			}
		}
	}
	for _, situation := range []string{
		"cannot be", "halved", "grown", "fewest", "most", "batch", "full batch", "closed", "open",
		"half-open",
	} {
		if met[situation] < 50 {
			t.Errorf("%s: met %d times", situation, met[situation])
		}
	}
}
