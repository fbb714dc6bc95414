package memorytest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/perdure/perdure/orchestrator"
)

// A program makes random calls of several handles, one after the other.
type program struct {
	*rand.Rand
	handles []handle
	models  []*model
}

// histories compares each answer of a program with a model. It sleeps in steps of which two outlast
// every lock. Between two there are many calls, or so few that locks are left.
func histories(ctx context.Context, w World) error {
	const handles, subjects, rounds, many, few = 3, 4, 3, 50, 8
	if w.Seed == 0 {
		w.Seed = rand.Uint64()
	}
	p := program{Rand: rand.New(rand.NewPCG(w.Seed, 0))}
	for range handles {
		p.handles = append(p.handles, w.handle(ctx))
	}
	for i := range subjects {
		p.models = append(p.models, &model{subject: fmt.Sprint("s", i), ended: true})
	}
	for range rounds {
		for _, calls := range []int{many, p.IntN(few)} {
			for range calls {
				if err := p.call(); err != nil {
					return fmt.Errorf("seed %d: %w", w.Seed, err)
				}
			}
			p.sleep()
		}
	}
	return nil
}

func (p *program) sleep() {
	h := p.handles[0]
	h.Sleep(h.TTL * 3 / 4)
	for _, m := range p.models {
		m.sleeps++
	}
}

// call makes one call, and judges its answer.
func (p *program) call() error {
	h, m := p.handles[p.IntN(len(p.handles))], p.models[p.IntN(len(p.models))]
	t, before := p.token(m), time.Now()
	var right bool
	var said string
	var err error
	switch p.IntN(8) {
	case 0, 1:
		t, err = h.Lock(h.ctx, m.subject, h.TTL, nil)
		right, said = m.lock(m.is(h.TTL), t, before), fmt.Sprintf("lock: %d", t)
	case 2, 3, 4:
		c := orchestrator.Change[Value]{Next: Value{Text: fmt.Sprint(p.Uint32())}, Lock: t}
		prev := p.version(m)
		if prev > 0 {
			c.Prev = &orchestrator.State[Value]{Version: prev}
		}
		failed := h.Write(h.ctx, m.subject, c, nil)
		right = m.write(m.is(h.TTL), c, prev, failed)
		said = fmt.Sprintf("write %s after %d with %d: %v", c.Next.Text, prev, t, failed)
	case 5:
		var ok bool
		ok, err = h.Unlock(h.ctx, m.subject, t, nil)
		right, said = m.unlock(m.is(h.TTL), t, ok), fmt.Sprintf("unlock %d: %v", t, ok)
	default:
		var s *orchestrator.State[Value]
		s, err = h.Read(h.ctx, m.subject, nil)
		right, said = m.read(s), fmt.Sprintf("read: %+v", s)
	}
	m.calls = append(m.calls, said)
	if err == nil && !right {
		err = fmt.Errorf("the last answer is wrong: %s, %s", m.subject, strings.Join(
			m.calls[max(0, len(m.calls)-8):], "; "))
	}
	return err
}

// token returns the last token, or another number.
func (p *program) token(m *model) orchestrator.Token {
	switch p.IntN(8) {
	case 0:
		return p.models[p.IntN(len(p.models))].token
	case 1:
		return m.token + 1
	case 2:
		return orchestrator.Token(p.Int64N(int64(m.token) + 1))
	}
	return m.token
}

// version returns the present version, or another number.
func (p *program) version(m *model) int64 {
	if p.IntN(4) == 0 {
		return p.Int64N(m.version + 2)
	}
	return m.version
}

// A model has what a memory must have of one subject.
type model struct {
	subject string
	text    string
	version int64
	token   orchestrator.Token // of the last lock
	since   time.Time          // before it was taken
	sleeps  int                // since it was taken
	ended   bool               // by an unlock, or it was seen that it has passed
	calls   []string           // with their answers
}

// A lease describes the last lock, as far as the model knows.
type lease int

const (
	free lease = iota // it has passed, or there was none
	held
	unclear // it may have passed: the model allows both
)

func (m *model) is(ttl time.Duration) lease {
	switch {
	case m.ended || m.sleeps >= 2:
		return free
	case m.sleeps == 0 && time.Since(m.since) < ttl/2:
		return held
	}
	return unclear
}

func (m *model) read(s *orchestrator.State[Value]) bool {
	if s == nil {
		return m.version == 0
	}
	return s.Version == m.version && s.Value.Text == m.text
}

func (m *model) lock(l lease, t orchestrator.Token, before time.Time) bool {
	if t == 0 {
		return l != free
	}
	right := l != held && t > m.token
	m.token, m.since, m.sleeps, m.ended = t, before, 0, false
	return right
}

func (m *model) write(l lease, c orchestrator.Change[Value], prev int64, err error) bool {
	mine, fits := c.Lock == m.token, prev == m.version
	switch {
	case errors.Is(err, orchestrator.ErrFenced):
		m.ended = m.ended || mine
		return !mine || l != held
	case errors.Is(err, orchestrator.ErrConflict):
		return mine && l != free && !fits
	}
	m.text, m.version = c.Next.Text, m.version+1
	return err == nil && mine && l != free && fits
}

func (m *model) unlock(l lease, t orchestrator.Token, ok bool) bool {
	mine := t == m.token
	m.ended = m.ended || mine
	if ok {
		return mine && l != free
	}
	return !mine || l != held
}
