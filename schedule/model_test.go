package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/schedule"
)

// A defect is a way in which a model is wrong.
type defect int

const (
	none             defect = iota
	ignoresOpenRuns         // a time starts a run although one is open
	buffersTheFirst         // of the times beside an open run, the first is kept
	leavesRunsOpen          // cancel waits for the end of the open run
	catchesUpAll            // all times without an engine start runs
	catchesUpNothing        // none of them does
	catchesUpPauses         // a schedule that is resumed starts what it has missed
	changesLate             // a change counts from the time after the next one on
	forgetsRequests         // a request beside an open run is lost
	defects
)

// A model is a schedule as its documentation describes it, second by second.
type model struct {
	defect   defect
	spec     schedule.Spec
	minutes  []int // of the hour at which the expression fires; nil for a rate
	length   int   // of a run, in seconds
	anchor   int
	isSet    bool
	up       bool
	paused   bool
	since    int   // times after it count
	open     []int // when the open runs end
	strays   []int // when open runs end that were started beside each other before a change
	wanted   []int
	buffered int // a nominal time; 0 for none
	late     []int
	catching bool  // the late times are being started
	beside   []int // times that came while no engine was up and a run was open

	started []string
	missed  int64
}

func (m *model) isNominal(t int) bool {
	switch {
	case m.minutes == nil:
		every := int(m.spec.Every / time.Second)
		return t >= m.anchor && (t-m.anchor)%every == 0
	case t%60 != 0:
		return false
	}
	return slices.Contains(m.minutes, t/60%60)
}

func (m *model) isAllow() bool { return m.spec.Overlap == schedule.Allow }

func (m *model) start(nominal, at int, mark string) {
	m.started = append(m.started, fmt.Sprint(nominal, mark, " at ", at))
	m.open = append(m.open, at+m.length)
}

// tick lets one second pass.
func (m *model) tick(t int) {
	if m.isSet && !m.paused && t > m.since && m.isNominal(t) {
		m.come(t)
	}
	m.settle(t)
}

// settle does what can be done at once.
func (m *model) settle(t int) {
	if !m.up {
		return
	}
	hasEnded := func(end int) bool { return end <= t }
	m.open, m.strays = slices.DeleteFunc(m.open, hasEnded), slices.DeleteFunc(m.strays, hasEnded)
	besides := m.beside
	m.beside = nil
	for _, t := range besides {
		m.overlap(t)
	}
	for m.isSet && m.next(t) {
	}
}

// come takes in a nominal time.
func (m *model) come(t int) {
	isOpen := len(m.open) > 0 && !m.isAllow() && m.defect != ignoresOpenRuns
	switch {
	case m.catching && !m.isAllow(), !m.up && !isOpen:
		m.late = append(m.late, t)
	case !m.up:
		m.beside = append(m.beside, t)
	case len(m.strays) > 0 && !m.isAllow():
		m.missed++
	case !isOpen:
		m.start(t, t, "")
	default:
		m.overlap(t)
	}
}

// overlap takes in a nominal time that comes while a run is open.
func (m *model) overlap(t int) {
	switch {
	case m.spec.Overlap == schedule.Skip:
		m.missed++
	case m.buffered != 0 && m.defect == buffersTheFirst:
		m.missed++
	default:
		if m.buffered != 0 {
			m.missed++
		}
		m.buffered = t
		if m.spec.Overlap == schedule.Cancel && m.defect != leavesRunsOpen {
			m.open = nil
		}
	}
}

// next starts the next run that may start now. It reports whether there was one.
func (m *model) next(t int) bool {
	isFree := len(m.open) == 0 || m.isAllow()
	switch {
	case !isFree:
		if m.defect == forgetsRequests {
			m.wanted = nil
		}
		return false
	case len(m.wanted) > 0 && !m.isCancelling():
		m.start(m.wanted[0], t, "!")
		m.wanted = m.wanted[1:]
	case m.paused:
		return false
	case m.buffered != 0:
		m.start(m.buffered, t, "")
		m.buffered = 0
	case len(m.late) > 0:
		return m.catchUp(t)
	default:
		m.catching = false
		return false
	}
	return true
}

// isCancelling reports whether a run was cancelled for a time that is still to start one.
func (m *model) isCancelling() bool {
	return m.spec.Overlap == schedule.Cancel && m.buffered != 0 && !m.paused
}

// catchUp starts the first of the late times that is to be started.
func (m *model) catchUp(t int) bool {
	rule := m.spec.CatchUp
	switch m.defect {
	case catchesUpAll:
		rule = schedule.All
	case catchesUpNothing:
		rule = schedule.None
	}
	last := m.late[len(m.late)-1]
	switch {
	case rule == schedule.All && (len(m.late) > 1 || m.catching):
		m.catching = true
		m.start(m.late[0], t, "")
		m.late = m.late[1:]
		return true
	case rule == schedule.None && t-last > 60:
		m.missed += int64(len(m.late))
		m.late = nil
		return true
	}
	m.missed += int64(len(m.late) - 1)
	m.late = nil
	m.start(last, t, "")
	return true
}

// drop misses the times that wait for a start.
func (m *model) drop() {
	m.missed += int64(len(m.late) + len(m.beside))
	if m.buffered != 0 {
		m.missed++
	}
	m.buffered, m.late, m.catching, m.beside = 0, nil, false, nil
}

func (m *model) goOn(t int) {
	m.drop()
	m.since = t
	if m.defect == changesLate {
		for m.since++; !m.isNominal(m.since); m.since++ {
		}
	}
}

func (m *model) set(spec schedule.Spec, minutes []int, length, t int) {
	if m.spec.Every == 0 && spec.Every > 0 {
		m.anchor = t
	}
	isFirst := !m.isSet
	if m.isAllow() && spec.Overlap != schedule.Allow {
		m.strays, m.open = append(m.strays, m.open...), nil
	}
	m.spec, m.minutes, m.length, m.isSet = spec, minutes, length, true
	m.goOn(t)
	if isFirst && spec.Every > 0 && !m.paused && m.defect != changesLate {
		m.come(t)
	}
}

// A history is a random history of a schedule.
type history struct {
	bench
	rand  *rand.Rand
	began time.Time
	acts  []string // in words, for the failure
	models
}

// note records an act.
func (h *history) note(format string, args ...any) {
	h.acts = append(h.acts, fmt.Sprintf("%d ", h.now())+fmt.Sprintf(format, args...))
}

// models are one correct model, and wrong ones.
type models []*model

func (all models) each(f func(*model)) {
	for _, m := range all {
		f(m)
	}
}

func (h *history) now() int { return int(time.Since(h.began) / time.Second) }

// pass lets seconds pass, here and in the models.
func (h *history) pass(seconds int) {
	for range seconds {
		time.Sleep(time.Second)
		synctest.Wait()
		t := h.now()
		h.each(func(m *model) { m.tick(t) })
	}
}

// act does something at random.
func (h *history) act() {
	ctx, t, by := h.t.Context(), h.now(), schedule.Note{}
	first := h.models[0]
	switch n := h.rand.IntN(10); {
	case !first.isSet || n < 2:
		h.change(t)
	case n < 4 && !first.paused:
		world.NoError(h.t, schedule.Pause(ctx, h.Engine, "s", by))
		h.note("pause")
		h.each(func(m *model) {
			m.paused = true
			m.drop()
		})
	case n < 6 && first.paused:
		world.NoError(h.t, schedule.Resume(ctx, h.Engine, "s", by))
		h.note("resume")
		h.each(func(m *model) {
			m.paused = false
			if m.defect == catchesUpPauses {
				for at := m.since + 1; at <= t; at++ {
					if m.isNominal(at) {
						m.buffered = at
					}
				}
				return
			}
			m.goOn(t)
		})
	case n < 7:
		world.Must[string](h.t)(schedule.RunNow(ctx, h.Engine, "s", by))
		h.note("run now")
		h.each(func(m *model) { m.wanted = append(m.wanted, t) })
	case n < 8:
		h.note("crash")
		h.Crash()
	default:
		h.Kill()
		h.note("down")
		h.each(func(m *model) { m.up = false })
		h.pass(h.rand.IntN(150) * 60)
		h.note("up")
		h.Begin()
		h.each(func(m *model) { m.up = true })
	}
	synctest.Wait()
	h.each(func(m *model) { m.settle(h.now()) })
}

// change sets the schedule anew.
func (h *history) change(t int) {
	pick := func(all ...string) string { return all[h.rand.IntN(len(all))] }
	spec := schedule.Spec{
		Overlap: schedule.Overlap(pick("skip", "allow", "buffer", "cancel")),
		CatchUp: schedule.CatchUp(pick("last", "none", "all")),
	}
	var minutes []int
	switch h.rand.IntN(3) {
	case 0:
		spec.Every = 13*time.Minute + 7*time.Second
	case 1:
		spec.Cron, minutes = "20,45 * * * *", []int{20, 45}
	default:
		spec.Cron, minutes = "*/10 * * * *", []int{0, 10, 20, 30, 40, 50}
	}
	length := 17
	if spec.Workflow = "short"; h.rand.IntN(2) == 0 {
		spec.Workflow, length = "long", 25*60+17
	}
	h.note("set %s %s%v %s %s", spec.Workflow, spec.Cron, spec.Every, spec.Overlap, spec.CatchUp)
	h.set("s", spec)
	h.each(func(m *model) { m.set(spec, minutes, length, t) })
}

// compare returns the difference between the schedule and a model.
func (h *history) compare(m *model, started []string, missed int64) string {
	slices.Sort(started)
	want := slices.Sorted(slices.Values(m.started))
	less := func(all, than []string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(s string) bool {
			return slices.Contains(than, s)
		})
	}
	if !slices.Equal(started, want) {
		return fmt.Sprintf("runs %v, want %v", less(started, want), less(want, started))
	}
	if missed != m.missed {
		return fmt.Sprintf("%d times missed, want %d", missed, m.missed)
	}
	return ""
}

// outcome returns the runs that the schedule has started, and the number of missed times.
func (h *history) outcome() (started []string, missed int64) {
	for _, head := range h.heads("s") {
		mark, text := "", head.WorkflowID[len("s@"):]
		if text[len(text)-1] == '!' {
			mark, text = "!", text[:len(text)-1]
		}
		at := world.Must[time.Time](h.t)(time.Parse(time.RFC3339Nano, text))
		started = append(started, fmt.Sprint(int(at.Sub(h.began)/time.Second), mark, " at ",
			int(head.Created.Sub(h.began)/time.Second)))
	}
	if h.models[0].isSet {
		missed = h.get("s").Missed
	}
	return started, missed
}

// play plays the history of a seed. It returns the differences between the schedule and the
// models, by their defects.
func play(t *testing.T, seed uint64) []string {
	out := make([]string, defects)
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, job("short", 17*time.Second), job("long", 25*time.Minute+17*time.Second),
			schedule.Workflow())
		h := &history{
			bench: bench{w, t}, rand: rand.New(rand.NewPCG(seed, 1)),
			began: time.Now().Truncate(time.Hour),
		}
		for d := range defects {
			h.models = append(h.models, &model{defect: d, up: true})
		}
		for i := range 25 {
			h.pass(60*h.rand.IntN(60) + 60 - h.now()%60 + 22 + i)
			h.act()
		}
		h.pass(3600)
		// the times beside an open run count as missed when it ends, or now
		world.NoError(t, schedule.Pause(t.Context(), w.Engine, "s", schedule.Note{}))
		synctest.Wait()
		h.each(func(m *model) {
			if !m.paused {
				m.drop()
			}
		})
		started, missed := h.outcome()
		for d, m := range h.models {
			if out[d] = h.compare(m, started, missed); out[d] != "" {
				out[d] += "\n" + strings.Join(h.acts, "\n")
			}
		}
		w.End()
	})
	return out
}

// spec: F-12, R-34, B-10
func TestARandomHistoryIsAsTheModelSays(t *testing.T) {
	seeds := 60
	if testing.Short() {
		seeds = 20
	}
	caught := make([]int, defects)
	for seed := range uint64(seeds) {
		for d, difference := range play(t, seed) {
			if difference != "" {
				caught[d]++
			}
			if d == int(none) && difference != "" {
				t.Errorf("seed %d: %s", seed, difference)
			}
		}
	}
	for d, n := range caught {
		if n == 0 && defect(d) != none {
			t.Errorf("a model with defect %d differs from no history", d)
		}
	}
	t.Log("caught", caught)
}
