package perdure

import (
	"fmt"
	"math"
	"time"
)

// A Pressure says how many of many things may go on at a time, and whether more may
// begin at all. It is data: what it has seen of one use of it is in a Flow.
type Pressure interface {
	Begin() Flow
}

// A Flow is one use of a pressure. It decides by what it is told alone, so that workflow
// code which asks it decides the same on replay. It is used by one goroutine.
type Flow interface {
	// Room says how many more may begin now, while running go on; below 0 is none. An
	// error is what becomes of the next one instead. Where nothing runs, there is room
	// or an error.
	Room(running int, now time.Time) (int, error)
	// Ended takes in that one has ended, with an error or nil.
	Ended(err error, now time.Time)
}

// noLimit is the room where there is no limit.
const noLimit = math.MaxInt

// AtMost is a pressure under which at most so many go on at a time; 0 is no limit.
type AtMost int

// Begin is [Pressure].Begin.
func (n AtMost) Begin() Flow { return n }

// Validate gives an [Error] of code invalid for a negative number.
func (n AtMost) Validate() error {
	if n < 0 {
		return invalid("at most", "%d at a time: at least 1, or 0 for no limit", int(n))
	}
	return nil
}

// Room is [Flow].Room. Where Validate complains, nothing begins and all get that error.
func (n AtMost) Room(running int, _ time.Time) (int, error) {
	if n == 0 {
		return noLimit, nil
	}
	return int(n) - running, n.Validate()
}

// Ended is [Flow].Ended.
func (AtMost) Ended(error, time.Time) {}

// A misfit is the flow of a pressure whose numbers cannot be: none of the many begins,
// and each gets what is wrong.
type misfit struct{ err error }

func (f misfit) Room(int, time.Time) (int, error) { return 0, f.err }
func (misfit) Ended(error, time.Time)             {}

// Adaptive is a pressure under which more go on at a time while few fail, and fewer
// where many do. Whenever Every have ended, it judges by the share of these that failed,
// and counts anew.
//
// Zero fields take the value that is said of them.
type Adaptive struct {
	Start int     // how many may go on at a time at first; 4, or what is nearest to it of Min to Max
	Min   int     // never fewer, at least 1; 1
	Max   int     // never more; 16
	Halve float64 // half as many where a larger share failed, up to 1; 0.1
	Grow  float64 // one more where a smaller share failed, less than Halve; half of Halve
	Every int     // how many results it judges at a time; 10
}

// Begin is [Pressure].Begin. Where Validate complains, nothing begins and all get that
// error.
func (a Adaptive) Begin() Flow {
	if err := a.Validate(); err != nil {
		return misfit{err}
	}
	a = a.filled()
	return &adaptiveFlow{of: a, limit: a.Start}
}

// Validate gives an [Error] of code invalid where a field cannot be.
func (a Adaptive) Validate() error {
	const op = "adaptive"
	a = a.filled()
	switch {
	case a.Min < 1:
		return invalid(op, "Min is %d: at least 1", a.Min)
	case a.Max < a.Min:
		return invalid(op, "Max is %d: at least Min, which is %d", a.Max, a.Min)
	case a.Start < a.Min || a.Start > a.Max:
		return invalid(op, "Start is %d: %d to %d, as Min and Max are", a.Start, a.Min, a.Max)
	case !(a.Halve >= 0 && a.Halve <= 1):
		return invalid(op, "Halve is %v: 0 to 1", a.Halve)
	case !(a.Grow >= 0 && a.Grow < a.Halve):
		return invalid(op, "Grow is %v: at least 0, and less than Halve, which is %v", a.Grow, a.Halve)
	case a.Every < 1:
		return invalid(op, "Every is %d: at least 1", a.Every)
	}
	return nil
}

func (a Adaptive) filled() Adaptive {
	if a.Min == 0 {
		a.Min = 1
	}
	if a.Max == 0 {
		a.Max = 16
	}
	if a.Start == 0 {
		a.Start = min(max(4, a.Min), a.Max)
	}
	if a.Halve == 0 {
		a.Halve = 0.1
	}
	if a.Grow == 0 {
		a.Grow = a.Halve / 2
	}
	if a.Every == 0 {
		a.Every = 10
	}
	return a
}

type adaptiveFlow struct {
	of            Adaptive
	limit         int
	ended, failed int // since it judged
}

func (f *adaptiveFlow) Room(running int, _ time.Time) (int, error) { return f.limit - running, nil }

func (f *adaptiveFlow) Ended(err error, _ time.Time) {
	f.ended++
	if err != nil {
		f.failed++
	}
	if f.ended < f.of.Every {
		return
	}
	switch share := float64(f.failed) / float64(f.ended); {
	case share > f.of.Halve:
		f.limit = max(f.limit/2, f.of.Min)
	case share < f.of.Grow && f.limit < f.of.Max:
		f.limit++
	}
	f.ended, f.failed = 0, 0
}

// Batched is a pressure under which the many go on in batches: the members of one go on
// at once, and none of the next begins before they have all ended. Once one of a batch
// has ended, no other joins it.
type Batched struct {
	Size int // of a batch; 0 is 10
}

// Begin is [Pressure].Begin. Where Validate complains, nothing begins and all get that
// error.
func (b Batched) Begin() Flow {
	if err := b.Validate(); err != nil {
		return misfit{err}
	}
	return &batchedFlow{size: b.filled().Size}
}

// Validate gives an [Error] of code invalid for a size that cannot be.
func (b Batched) Validate() error {
	if size := b.filled().Size; size < 1 {
		return invalid("batched", "Size is %d: at least 1", size)
	}
	return nil
}

func (b Batched) filled() Batched {
	if b.Size == 0 {
		b.Size = 10
	}
	return b
}

type batchedFlow struct {
	size   int
	closed bool // one of the batch has ended
}

func (f *batchedFlow) Room(running int, _ time.Time) (int, error) {
	if running == 0 {
		f.closed = false
	}
	if f.closed {
		return 0, nil
	}
	return f.size - running, nil
}

func (f *batchedFlow) Ended(error, time.Time) { f.closed = true }

// Breaker is a pressure that stops what fails again and again: a circuit breaker.
// Failures in a row open it: then nothing begins, and what would have gets a
// [BreakerOpenError]. Closed, it lets at most as many go on at a time as failures are
// still needed for that, so that it is open before there are more of them. After Recovery it is half-open: at most as many
// go on at a time as successes are still needed. So many successes close it, and one
// failure opens it again.
//
// What ends while it is open does not count: it began before. What ends while it is
// half-open counts, whenever it began.
//
// Zero fields take the value that is said of them.
type Breaker struct {
	Failures  int           // in a row, that open it; 5
	Recovery  time.Duration // how long it is open; 30 s
	Successes int           // that close it when it is half-open; 3
}

// Begin is [Pressure].Begin. Where Validate complains, nothing begins and all get that
// error.
func (b Breaker) Begin() Flow {
	if err := b.Validate(); err != nil {
		return misfit{err}
	}
	return &breakerFlow{of: b.filled()}
}

// Validate gives an [Error] of code invalid where a field cannot be.
func (b Breaker) Validate() error {
	const op = "breaker"
	b = b.filled()
	switch {
	case b.Failures < 1:
		return invalid(op, "Failures is %d: at least 1", b.Failures)
	case b.Recovery < 0:
		return invalid(op, "Recovery is %v: no time is negative", b.Recovery)
	case b.Successes < 1:
		return invalid(op, "Successes is %d: at least 1", b.Successes)
	}
	return nil
}

func (b Breaker) filled() Breaker {
	if b.Failures == 0 {
		b.Failures = 5
	}
	if b.Recovery == 0 {
		b.Recovery = 30 * time.Second
	}
	if b.Successes == 0 {
		b.Successes = 3
	}
	return b
}

type breakerFlow struct {
	of       Breaker
	failures int // in a row, while closed
	open     bool
	since    time.Time // when it opened last
	needed   int       // successes, while half-open
}

func (f *breakerFlow) Room(running int, now time.Time) (int, error) {
	if f.open {
		if until := f.since.Add(f.of.Recovery); now.Before(until) {
			return 0, &BreakerOpenError{Since: f.since, Until: until}
		}
		f.open, f.needed = false, f.of.Successes
	}
	if f.needed == 0 {
		return f.of.Failures - f.failures - running, nil
	}
	return f.needed - running, nil
}

func (f *breakerFlow) Ended(err error, now time.Time) {
	switch {
	case f.open:
	case err == nil:
		f.failures, f.needed = 0, max(f.needed-1, 0)
	default:
		if f.failures++; f.needed > 0 || f.failures >= f.of.Failures {
			f.open, f.since = true, now
		}
	}
}

// A BreakerOpenError is what becomes of those that may not begin because a [Breaker] is
// open. Journals keep it: errors.As finds it in the chain of a recorded error.
type BreakerOpenError struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
}

// Error says since when and until when.
func (e *BreakerOpenError) Error() string {
	const layout = "2006-01-02T15:04:05.999Z07:00"
	return fmt.Sprintf("perdure: the circuit breaker is open since %s, until %s", e.Since.UTC().Format(layout), e.Until.UTC().Format(layout))
}

// It cannot fail: no name is taken before this one.
var _ = RegisterErrorType[*BreakerOpenError]("perdure.breaker-open")
