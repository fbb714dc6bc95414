package kernel_test

import (
	"cmp"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

var update = flag.Bool("update", false, "write what the scripts print: know why it has changed")

// Each file of testdata is a story: commands, each followed by its output.
//
//	workflow w         defines a workflow; the indented lines are its code (script_code_test.go)
//	start w one        starts a run of w, with the workflow ID one (script_command_test.go)
//
// The output of a command ends with an empty line. It has, in the order in which it happened:
//
//	+1h                the time since the beginning of the story, if it has changed
//	e1 commits         a group that engine e1 has written, change by change
//	e1 takes one: …    a claim that gave e1 a run; claims without effect are left out
//	code of one begins, returns, fails, or leaves memory
//	step one/a begins  the body of the step a was called
//	start one: new     the result of a command
//
// One thing happens at a time. Commits, claims, listeners and bodies of steps wait until nothing
// else can go on, and then the first of them, in this order and by name, goes on. So the
// output is the same every time.
//
// spec: L-1, L-2, L-3, L-4, L-5, L-6, L-7, L-8, L-9, L-10, L-11, L-12, L-13, L-14, L-15, L-16
// spec: L-17, L-18, L-19, R-11, R-12, R-14, R-15, R-16, R-17, R-20, R-22, R-23, R-25, R-27
// spec, F-3, F-5, F-18, F-21, F-22, F-23, F-24, P-1, P-4, P-5, B-1, B-2, B-3, B-4
// spec: B-5, B-12
func TestScript(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var got string
			synctest.Test(t, func(t *testing.T) { got = play(t, string(want)) })
			switch {
			case *update:
				err = os.WriteFile(path, []byte(got), 0o644)
			case got != string(want):
				t.Error(difference(string(want), got))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// play carries out the commands of a story, and returns the story with their output.
func play(t *testing.T, story string) string {
	w := &world{
		T: t, db: memory.New(), began: time.Now(), last: "+0s", arrived: make(chan struct{}, 1),
		over: make(chan struct{}), observed: map[observe.Kind]bool{}, fates: map[string][]string{},
		names: map[journal.Number]string{}, held: map[string]chan string{},
	}
	defer w.end()
	var out []string
	lines := strings.Split(story, "\n")
	for i := 0; i < len(lines); i++ {
		first := i
		if out = append(out, lines[i]); lines[i] == "" || lines[i][0] == '#' {
			continue
		}
		for i++; i < len(lines) && lines[i] != "----"; i++ {
			out = append(out, lines[i])
		}
		result := w.command(parse(lines[first:i])[0])
		w.settle(0)
		out = append(append(out, "----"), w.printed(result)...)
		for i+1 < len(lines) && lines[i+1] != "" {
			i++
		}
	}
	return strings.Join(out, "\n")
}

// difference returns the place where two texts begin to differ.
func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	part := func(all []string) string {
		return strings.Join(all[max(at-5, 0):min(at+10, len(all))], "\n")
	}
	return "want\n" + part(a) + "\n\ngot\n" + part(b)
}

// A line is a command, or an operation of workflow code: a verb, words, options such as key=k,
// and the lines below it that are indented more.
type line struct {
	verb  string
	words []string
	opts  map[string]string
	body  []line
}

func parse(lines []string) (out []line) {
	indent := func(s string) int { return len(s) - len(strings.TrimLeft(s, " ")) }
	for i := 0; i < len(lines); {
		next := i + 1
		for next < len(lines) && indent(lines[next]) > indent(lines[i]) {
			next++
		}
		l := line{opts: map[string]string{}, body: parse(lines[i+1 : next])}
		for _, word := range strings.Fields(lines[i]) {
			if k, v, ok := strings.Cut(word, "="); ok {
				l.opts[k] = v
			} else {
				l.words = append(l.words, word)
			}
		}
		out = append(out, l.tail())
		i = next
	}
	return out
}

// tail returns a line whose verb is the first word of this one.
func (l line) tail() line {
	l.verb, l.words = l.words[0], l.words[1:]
	return l
}

// word returns the n-th word after the verb, from 1; empty if there is none.
func (l line) word(n int) string {
	if n > len(l.words) {
		return ""
	}
	return l.words[n-1]
}

// data returns a word as a payload; nil if there is none.
func (l line) data(n int) []byte {
	if l.word(n) == "" {
		return nil
	}
	return []byte(l.word(n))
}

// says reports whether the line has a word.
func (l line) says(word string) bool { return slices.Contains(l.words, word) }

func duration(text string) time.Duration {
	d, _ := time.ParseDuration(text)
	return d
}

// time returns an option that is a duration, number an option that is a number; number returns
// otherwise if there is none.
func (l line) time(option string) time.Duration { return duration(l.opts[option]) }

func (l line) number(option string, otherwise int) int {
	if n, err := strconv.Atoi(l.opts[option]); err == nil {
		return n
	}
	return otherwise
}

// A world has a database, the engines on it, and the events of a story.
type world struct {
	*testing.T
	db       *memory.Store
	began    time.Time
	engines  []*engine
	defined  []line // workflows
	observed map[observe.Kind]bool
	over     chan struct{} // closed when the story is over

	mu      sync.Mutex
	lines   []string // printed by the command
	last    string   // the time that was printed
	group   printed
	notes   []note
	gates   []*gate
	arrived chan struct{}       // has a value if there is another gate
	fates   map[string][]string // of the next commits, claims and loads
	names   map[journal.Number]string
	held    map[string]chan string // bodies that wait for the command finish
}

// end stops everything, and checks the database.
func (w *world) end() {
	close(w.over)
	w.mu.Lock()
	clear(w.fates)
	for _, g := range w.gates {
		g.held = false
	}
	w.mu.Unlock()
	for _, e := range w.engines {
		w.stop(e)
	}
	w.journals(store.Filter{Limit: store.MaxLimit})
}

// A gate is a place where a goroutine waits until the script lets it go on.
type gate struct {
	of    *engine
	order string // decides which gate is before others
	held  bool   // until the command release
	fate  string // of a commit or claim
	open  chan struct{}
}

// The kinds of gates, in their order.
const (
	commits   = "1 commit"
	claims    = "2 claim"
	outbox    = "3 claim of the outbox"
	listeners = "4 call of a listener"
	bodies    = "5 body of a step"
	loads     = "load" // that has no fate
)

// pass waits at a gate, prints a text, if there is one, and returns the fate of a commit or claim.
// It returns false if the engine is dead.
func (w *world) pass(of *engine, kind, text string) (fate string, lives bool) {
	g := &gate{of: of, order: kind + of.name + text, open: make(chan struct{})}
	w.mu.Lock()
	if of.dead {
		w.mu.Unlock()
		return "", false
	}
	g.fate = cmp.Or(w.fate(kind+of.name), w.fate(kind))
	g.held = g.fate == "hold"
	w.gates = append(w.gates, g)
	w.mu.Unlock()
	select {
	case w.arrived <- struct{}{}:
	default:
	}
	<-g.open
	w.mu.Lock()
	defer w.mu.Unlock()
	if text != "" && !of.dead {
		w.print(time.Now(), text)
	}
	return g.fate, !of.dead
}

// fate takes the next fate of a kind. It is called with the lock.
func (w *world) fate(kind string) string {
	if len(w.fates[kind]) == 0 {
		return ""
	}
	fate := w.fates[kind][0]
	w.fates[kind] = w.fates[kind][1:]
	return fate
}

// next opens the first gate. It returns false if there is none.
func (w *world) next() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	var first *gate
	for _, g := range w.gates {
		if !g.held && (first == nil || g.order < first.order) {
			first = g
		}
	}
	if first == nil {
		return false
	}
	w.gates = slices.DeleteFunc(w.gates, func(g *gate) bool { return g == first })
	close(first.open)
	return true
}

// mostPasses is above the number of passes that any command causes.
const mostPasses = 1000

// settle lets everything happen that can until some time has passed. Each pass has a time of its
// own, so that entries show which pass they come of.
func (w *world) settle(d time.Duration) {
	until := time.Now().Add(d)
	for passes := 0; ; passes++ {
		if passes == mostPasses {
			w.Fatal("it goes on for ever")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		w.flush()
		if w.next() {
			continue
		}
		left := time.Until(until)
		if left <= 0 {
			return
		}
		select {
		case <-w.arrived:
		case <-time.After(left):
		}
	}
}

// A note is a line of somebody who goes on beside others. The lines of one pass are sorted by who.
type note struct {
	at        time.Time
	who, text string
}

func (w *world) note(of *engine, who, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !of.dead {
		w.notes = append(w.notes, note{time.Now(), who, who + text})
	}
}

// flush prints the notes.
func (w *world) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortStableFunc(w.notes, func(a, b note) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.who, b.who))
	})
	for _, n := range w.notes {
		w.print(n.at, n.text)
	}
	w.notes = nil
}

// print adds a line. It is called with the lock.
func (w *world) print(at time.Time, text string) {
	if now := w.offset(at); now != w.last {
		w.last = now
		w.lines = append(w.lines, now)
	}
	w.lines = append(w.lines, w.named(text))
}

// printed returns the lines that a command has printed, and its result.
func (w *world) printed(result string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.lines
	if w.lines = nil; result != "" {
		out = append(out, strings.Split(w.named(result), "\n")...)
	}
	if len(out) == 0 {
		return []string{"ok"}
	}
	return out
}
