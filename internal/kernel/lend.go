package kernel

import (
	"bytes"
	"iter"
	"reflect"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/perdure/perdure/observe"
)

const (
	// lendAfter is how long a turn lasts, while another goroutine of its run is able to go on,
	// before the kernel looks whether its holder blocks outside the engine.
	lendAfter = 100 * time.Millisecond
	// A look dumps the stacks of all goroutines, which stops the world: it is done at most once in
	// dumpEvery, and takes at most one part in dumpShare of the time.
	dumpEvery = time.Second
	dumpShare = 20
	// maxDump limits the size of the text in bytes. A holder that is not in it keeps its turn.
	maxDump = 256 << 20
)

// A lending finds holders that block outside the engine, in a channel, a lock, a sleep or I/O, and
// takes their turns from them. A long turn proves nothing: its holder may compute, or wait for a
// processor. One timer serves all runs of a kernel, and it runs only while the holder of one of
// them keeps others from going on.
type lending struct {
	mu    sync.Mutex
	turns []longTurn
	timer *time.Timer
	next  time.Time // no dump before
}

// A longTurn is a turn that keeps others of its run from going on.
type longTurn struct {
	openTurn
	since  time.Time
	holder *branch
	brief  bool // the last dump has found its holder in a wait that may be short
}

// watch makes the timer look at a turn. It is called with the run's lock.
func (l *lending) watch(t longTurn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns = append(l.turns, t)
	if len(l.turns) > 1 {
		return
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(lendAfter, l.look)
	} else {
		l.timer.Reset(lendAfter)
	}
}

// look takes the turn from each holder that blocks outside the engine.
func (l *lending) look() {
	l.mu.Lock()
	turns := l.turns
	l.turns = nil
	l.mu.Unlock()
	suspects := map[uintptr]*longTurn{}
	for i := range turns {
		t := &turns[i]
		if t.suspect() {
			suspects[reflect.ValueOf(t.holder).Pointer()] = t
		}
	}
	if len(suspects) == 0 {
		return
	}
	var found map[uintptr]whereabouts
	if l.may() {
		began := time.Now()
		found = find(dump(true), suspects)
		l.took(time.Since(began))
	}
	for at, t := range suspects {
		t.judge(found[at])
	}
}

// may reports whether it is time for a dump, and makes others wait for the next one.
func (l *lending) may() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Before(l.next) {
		return false
	}
	l.next = now.Add(dumpEvery)
	return true
}

// took makes the next dump wait in proportion to the time that this one has taken.
func (l *lending) took(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if next := time.Now().Add(dumpShare * d); next.After(l.next) {
		l.next = next
	}
}

// contend watches a holder that keeps others from going on.
func (l *lending) contend(r *run) {
	if r.watch() {
		l.watch(longTurn{openTurn: openTurn{r, r.turn()}, since: time.Now()})
	}
}

// suspect reports whether the holder of the turn may block outside the engine. If it may do so
// later, suspect goes on watching it.
func (t *longTurn) suspect() bool {
	r := t.run
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unwatch()
	switch {
	case !t.contended():
		return false
	case r.turn() != t.turn:
		r.k.lends.contend(r)
		return false
	case time.Since(t.since) < lendAfter, r.isReading(), len(r.holder().wake) > 0:
		t.watchOn() // in the last case the holder has not run yet
		return false
	}
	t.holder = r.holder()
	return true
}

// watchOn makes the timer look at the turn again. It is called with the run's lock.
func (t *longTurn) watchOn() {
	t.run.watch()
	t.run.k.lends.watch(*t)
}

// contended reports whether the holder keeps others of the run from going on.
func (t *longTurn) contended() bool {
	r := t.run
	return r.holder() != nil && (r.canGoOn() || r.waits.timer(r.k.clock) != nil || r.blocksTurn())
}

// judge lends the turn of a holder that blocks outside the engine. A system call, or a lock, counts
// if two dumps have found the holder in it: a short one may seem long on a busy machine, and the
// goroutine that has the lock may wait for a processor.
func (t *longTurn) judge(is whereabouts) {
	r := t.run
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.isWatched() || !t.contended():
	case r.turn() == t.turn && (is == blocked || is == inBrief && t.brief):
		r.holder().lend()
	case r.turn() == t.turn:
		t.brief = is == inBrief || is == unknown && t.brief
		t.watchOn()
	default:
		r.k.lends.contend(r)
	}
}

// lend takes the turn from a branch that blocks outside the engine, and lets the others go on. The
// branch gets in line again at its next durable operation.
func (b *branch) lend() {
	r := b.run
	if r.lendTurn(r.gone()) {
		at := "before its first durable operation"
		if !b.at.IsZero() {
			at = "after " + b.scope.show(b.at)
		}
		n := r.observed.notice(observe.TurnLent)
		n.Step, n.Reason = b.scope.path, "the workflow blocks outside the engine "+at+
			": the order of what its branches do is no longer the same on replay"
		go r.k.observe(n)
	}
	r.endTurn()
	r.dispatch()
}

// workflow calls workflow code for the branch. Its frame tells in a dump which
// goroutine is the branch's, by the address of b, and that what is above it is not the
// engine's code.
//
//go:noinline
func (b *branch) workflow(code func()) {
	code()
	runtime.KeepAlive(b)
}

// A whereabouts is the activity of the goroutine of a branch.
type whereabouts uint8

const (
	unknown whereabouts = iota // no dump was taken, or the goroutine is not in it
	runs                       // the goroutine runs, is ready to run, or is in a call of the engine
	// it is in a system call, or waits for a lock, which may last a short while only
	inBrief
	blocked // it waits for something outside the engine
)

// dump returns the stacks of all goroutines, or that of the calling one.
func dump(all bool) []byte {
	size := 1 << 14
	if all {
		size = max(1<<16, runtime.NumGoroutine()*1500)
	}
	for ; ; size *= 2 {
		size = min(size, maxDump)
		text := make([]byte, size)
		if n := runtime.Stack(text, all); n < size || size == maxDump {
			return text[:n]
		}
	}
}

const (
	ofKernel   = "/internal/kernel."
	ofWorkflow = ofKernel + "(*branch).workflow(0x"
)

// find returns the whereabouts of branches by a dump, by address.
func find(dump []byte, wanted map[uintptr]*longTurn) map[uintptr]whereabouts {
	found := map[uintptr]whereabouts{}
	for i, address := range workflows(dump) {
		if wanted[address] == nil || found[address] != unknown {
			continue
		}
		begin := bytes.LastIndex(dump[:i], []byte("\n\n")) + 1
		found[address] = whereaboutsOf(dump[begin:i])
	}
	return found
}

// workflows returns the frames of workflow in a dump: where each is, and its branch's address.
func workflows(dump []byte) iter.Seq2[int, uintptr] {
	return func(yield func(int, uintptr) bool) {
		for at := 0; ; {
			i := bytes.Index(dump[at:], []byte(ofWorkflow))
			if i < 0 {
				return
			}
			i += at
			at = i + len(ofWorkflow)
			end := bytes.IndexAny(dump[at:], ",?)")
			address, err := strconv.ParseUint(string(dump[at:at+max(end, 0)]), 16, 64)
			if err == nil && !yield(i, uintptr(address)) {
				return
			}
		}
	}
}

// isOwn reports whether the calling goroutine is one of the scope's run: its stack has the
// frame of workflow, for a branch of the run.
func (s *scope) isOwn() bool {
	for _, address := range workflows(dump(false)) {
		is := func(b *branch) bool { return reflect.ValueOf(b).Pointer() == address }
		if is(s.branch) || s.run.hasBranch(is) {
			return true
		}
	}
	return false
}

// waitsOutside has the prefixes of those reasons for a wait that do not come from the runtime. For
// a semaphore the runtime waits too: a goroutine that allocates may begin a collection, and then
// waits for the end of a dump.
var waitsOutside = []string{"chan ", "select", "sleep", "IO wait"}

// ofSemaphore is the frame of a goroutine that waits for a semaphore outside the runtime.
const ofSemaphore = ".runtime_Semacquire("

// whereaboutsOf returns the whereabouts of a goroutine by its header and its frames down to the
// workflow code. Frames above that code may be a call of the engine. A call that only a client
// makes of the engine is outside. The last frame is the function that workflow was given.
func whereaboutsOf(stack []byte) whereabouts {
	stack = stack[:max(bytes.LastIndex(stack, []byte(ofKernel)), 0)]
	if i := bytes.Index(stack, []byte(ofKernel)); i >= 0 {
		call := stack[i+len(ofKernel):]
		if !bytes.HasPrefix(call, []byte("(*Engine).")) &&
			!bytes.HasPrefix(call, []byte("(*FrontEnd).")) {
			return runs
		}
	}
	// it waits for a goroutine of the engine's
	if bytes.Contains(stack, []byte("/internal/guard.Call(")) {
		return runs
	}
	_, header, _ := bytes.Cut(stack, []byte(" ["))
	if bytes.HasPrefix(header, []byte("syscall")) || bytes.HasPrefix(header, []byte("sync.")) {
		return inBrief
	}
	if bytes.HasPrefix(header, []byte("semacquire")) &&
		bytes.Contains(header, []byte(ofSemaphore)) {
		return blocked
	}
	for _, reason := range waitsOutside {
		if bytes.HasPrefix(header, []byte(reason)) {
			return blocked
		}
	}
	return runs
}
