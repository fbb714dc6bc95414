package kernel

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/perdure/perdure/journal"
)

// The body of a step may put chunks into streams of its run while it goes on. Each is an entry,
// which the body appends from outside the turns, before the entry of its result. No operation asks
// for such an entry. A replay only learns from it which parts of streams count. What one attempt
// has put into a stream is a part of it. A part counts until the step is tried again: then an entry
// voids it, and the body is called when that entry is durable. So whoever reads the journal knows
// at each entry what counts, also if the attempt before died without a record.

// An outputs has how many bytes the steps of a run have put into streams, and into its log. Output
// that does not count any more is in it, because it is kept. The mu of the run guards it.
type outputs struct{ streamed, logged int64 }

// An early has what the bodies of an operation have recorded before its result. The mu of the run
// guards it.
type early struct {
	once  map[string]*checkpoint
	parts map[string]int64 // by stream: the part that counts; nil for none
}

// newOutputs returns the outputs by the journal of a claimed run; m is nil for a new one.
func newOutputs(m *memo) outputs {
	if m == nil {
		return outputs{}
	}
	return m.outputs
}

// note counts an entry.
func (s *outputs) note(e *journal.Entry) {
	switch e.Kind {
	case journal.StepOutput:
		s.streamed += int64(e.OutputSize())
	case journal.StepLogged:
		s.logged += int64(e.OutputSize())
	}
}

// room returns how many bytes of streams and of the log the limits leave.
func (s *outputs) room(stream, log int) (streams, lines int64) {
	return int64(stream) - s.streamed, int64(log) - s.logged
}

// Put appends a chunk to a stream of the run. If wait is set, it returns when the chunk is durable.
// Otherwise it returns at once, unless too much is on its way to the store: the chunk is durable
// with the result of the step at the latest.
func (s StepInfo) Put(stream string, data []byte, wait bool) error {
	a, op := s.a, "put into stream "+stream
	r := a.op.run
	if a.op.work.Tx {
		return notInTx(op)
	}
	if len(data) > journal.MaxChunk {
		return tooMuch(op, fmt.Sprintf("the chunk has %d bytes, the limit is %d", len(data),
			journal.MaxChunk), "put it in as several chunks")
	}
	size := len(data)
	spill, f := r.k.persistPayload("a chunk of stream "+stream, &data)
	if f != nil {
		return &journal.Error{Code: f.Code, Op: op, Message: f.Message}
	}
	e := journal.Entry{Kind: journal.StepOutput, Data: data, Spill: spill}
	d := journal.OutputDetail{Stream: stream}
	if spill != 0 {
		e.Data, d.Size = nil, size
	}
	return a.record(op, wait || !r.k.gate.open(), func() (journal.Entry, error) {
		if left, _ := r.outputs.room(r.k.cfg.MaxStreams, 0); left < int64(size) {
			return e, tooMuch(op, fmt.Sprintf("the streams of the run have %d bytes, the limit is "+
				"%d", int64(r.k.cfg.MaxStreams)-left, r.k.cfg.MaxStreams),
				"keep large data elsewhere, or set Options.MaxStreams")
		}
		d.Part = a.op.parts[stream]
		e.Detail = a.output(d)
		return e, nil
	}, func(seq int64) {
		if d.Part == 0 {
			a.op.opens(stream, seq)
		}
	})
}

// output returns the detail of an entry of what the attempt puts out.
func (a *attempt) output(d journal.OutputDetail) *journal.Detail {
	return a.op.mark(&journal.Detail{
		Attempt: a.n, StepDetail: journal.StepDetail{OutputDetail: d},
	})
}

// opens records the first chunk of a part.
func (s *early) opens(stream string, seq int64) {
	if s.parts == nil {
		s.parts = map[string]int64{}
	}
	s.parts[stream] = seq
}

// voidParts records that what the step has put into streams does not count any more.
func voidParts(o *operation) {
	for _, stream := range slices.Sorted(maps.Keys(o.parts)) {
		o.run.outside(journal.Entry{
			Kind: journal.StepOutput, Op: o.id,
			Detail: o.mark(&journal.Detail{StepDetail: journal.StepDetail{
				OutputDetail: journal.OutputDetail{
					Stream: stream, Part: o.parts[stream], Void: true,
				},
			}}),
		})
	}
	o.parts = nil
}

// record appends an entry of the attempt, and waits until that is durable if wait is set. make
// returns the entry, or an error that refuses it. put, which may be nil, gets its sequence. Both
// are called with the lock.
func (a *attempt) record(
	op string, wait bool, make func() (journal.Entry, error), put func(seq int64),
) error {
	r := a.op.run
	r.mu.Lock()
	if a.op.attempt != a || r.gone() {
		r.mu.Unlock()
		return &journal.Error{
			Code: journal.CodeCancelled, Op: op, Message: "the attempt was given up",
		}
	}
	e, err := make()
	if err != nil {
		r.mu.Unlock()
		return err
	}
	e.Op = a.op.id
	r.outputs.note(&e)
	if seq := r.outside(e); put != nil {
		put(seq)
	}
	var durable chan struct{}
	if wait {
		durable = newSignal(r)
	}
	r.flush()
	r.mu.Unlock()
	if !wait {
		return nil
	}
	select {
	case <-durable:
		return nil
	case <-r.done:
		return &journal.Error{
			Code: journal.CodeCancelled, Op: op, Message: "the run left this engine",
		}
	case <-r.k.dead:
		return r.k.cause()
	}
}

// newSignal returns a channel that is closed when every entry appended so far is durable.
func newSignal(r *run) chan struct{} {
	durable := make(chan struct{})
	r.whenDurable(effect{do: func() { close(durable) }})
	return durable
}

// notInTx refuses to make something durable in a step with a transaction.
func notInTx(op string) error {
	return &journal.Error{
		Code: journal.CodeMisuse, Op: op,
		Message: "nothing else becomes durable while a step has a transaction",
		Hint:    "do it in a step of its own before this one",
	}
}

func tooMuch(op, message, hint string) error {
	return &journal.Error{Code: journal.CodeTooLarge, Op: op, Message: message, Hint: hint}
}

// The body of a step may log lines that are kept with the run. They are collected in the attempt
// and recorded in few entries: when there are many, when some time has passed, and before the
// record of how the attempt ended. The body never waits for a commit. Lines that an engine has not
// recorded when it dies are lost.

const (
	logBytes = 16 << 10    // that many are recorded at once
	logLines = 100         // that many are recorded at once
	logAfter = time.Second // the longest time between a line and its record
)

// A logged has the lines of an attempt that are not recorded. The mu of the run guards it.
type logged struct {
	lines   []byte
	n       int         // the number of lines
	timer   *time.Timer // records them; nil if there are none
	bytes   int         // of all lines of the attempt that are kept
	omitted int         // lines that are not kept
}

// Keeps reports whether the lines of the step of that level, as package log/slog has it, are kept.
func (s StepInfo) Keeps(level int) bool {
	attempt, _ := s.a.op.work.limits(level)
	return attempt > 0
}

// limits returns the limits of the lines of one attempt, and of those of a run, in bytes.
func (w *Work) limits(level int) (attempt, run int) {
	if w.Keep == nil {
		return 0, 0
	}
	return w.Keep(level)
}

// Log keeps a line of that level, which is a JSON object and ends with a newline. It does not wait.
func (s StepInfo) Log(level int, line []byte) {
	a := s.a
	attempt, whole := a.op.work.limits(level)
	r := a.op.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if attempt <= 0 || a.op.attempt != a || r.gone() {
		return
	}
	l := &a.log
	_, left := r.outputs.room(0, whole)
	if l.omitted > 0 || l.bytes+len(line) > attempt ||
		int64(len(l.lines)+len(line)) > left { // no line after the first one that is left out
		l.omitted++
		return
	}
	l.lines, l.n, l.bytes = append(l.lines, line...), l.n+1, l.bytes+len(line)
	switch {
	case l.n >= logLines || len(l.lines) >= logBytes:
		a.recordLines()
		r.flush()
	case l.timer == nil:
		l.timer = time.AfterFunc(logAfter, a.recordInTime)
	}
}

// recordInTime records the lines that have waited for a while.
func (a *attempt) recordInTime() {
	r := a.op.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.op.attempt == a && !r.gone() {
		a.recordLines()
		r.flush()
	}
}

// recordLines records the lines that are not recorded.
func (a *attempt) recordLines() {
	l := &a.log
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	if l.n == 0 {
		return
	}
	e := journal.Entry{
		Kind: journal.StepLogged, Op: a.op.id, Data: l.lines,
		Detail: a.output(journal.OutputDetail{}),
	}
	a.op.run.outputs.note(&e)
	a.op.run.outside(e)
	l.lines, l.n = nil, 0
}

// closeLog records the last lines of an attempt that is over, and how many were left out. It does
// nothing for a nil attempt.
func (a *attempt) closeLog() {
	if a == nil || a.op.run.gone() {
		return
	}
	if n := a.log.omitted; n > 0 {
		line, _ := json.Marshal(map[string]any{ //nolint:errchkjson // texts, a time and a number
			"time": a.op.run.k.Now(), "level": "WARN", "omitted": n,
			"msg": fmt.Sprintf("%d more lines were left out", n),
		})
		a.log.lines, a.log.n = append(append(a.log.lines, line...), '\n'), a.log.n+1
		a.log.omitted = 0
	}
	a.recordLines()
}
