package kernel_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// A tape is the store as one engine sees it. It prints commits and claims, and applies the fates
// that commands have set.
type tape struct {
	*memory.Store
	w  *world
	of *engine
}

// fates has the errors of a commit, claim or load by its fate. The other fates are go and hold.
var fates = map[string]error{
	"fail":    errors.New("the network is down"), // nothing is written
	"lose":    errors.New("the network is down"), // the group is written, and the answer is lost
	"refuse":  &store.DataError{Err: errors.New("too wide")},
	"held":    store.ErrHeld,
	"fence":   store.ErrFenced,
	"break":   store.ErrDamaged,
	"corrupt": &journal.CorruptError{Reason: "a bit has flipped"},
}

// Lanes is [store.Parallel]: with one lane, groups are the same every time.
func (*tape) Lanes() int { return 1 }

// Watch is [store.Watcher]. Through it an engine also hears that it is dead.
func (s *tape) Watch(ctx context.Context, f func()) {
	context.AfterFunc(s.of.life, f)
	s.Store.Watch(ctx, f)
}

// Commit is [store.Store].
func (s *tape) Commit(ctx context.Context, g *store.Group) error {
	return s.write(ctx, " commits", g)
}

func (s *tape) write(ctx context.Context, how string, g *store.Group) error {
	fate, lives := s.w.pass(s.of, commits, "")
	if !lives {
		return store.ErrClosed
	}
	err := fates[fate]
	if err == nil || fate == "lose" {
		err = errors.Join(s.Store.Commit(ctx, g), err)
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if g.Again {
		how += " again"
	}
	if err != nil {
		how += ", and the store says: " + err.Error()
	}
	s.w.prints(s.of.name+how, g, err == nil || fate == "lose")
	return err
}

// Claim is [store.Store]. It returns one run at a time.
func (s *tape) Claim(ctx context.Context, c store.Claim) (out store.Claimed, err error) {
	kind := claims
	switch take := c.(type) {
	case store.TakeOutbox:
		kind = outbox
	case store.TakeDue:
		take.Max = min(take.Max, 1)
		c = take
	}
	fate, lives := s.w.pass(s.of, kind, "")
	if !lives {
		return out, store.ErrClosed
	}
	if err = fates[fate]; err == nil || fate == "lose" {
		var failed error
		out, failed = s.Store.Claim(ctx, c)
		err = errors.Join(failed, err)
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	var text []string
	switch c.(type) {
	case store.Join:
		if err == nil {
			s.of.id = out.Engine
			text = append(text, "joins")
		}
	case store.Leave:
		text = append(text, "leaves")
	}
	if out.Expired > 0 {
		text = append(text, fmt.Sprintf("takes over engines: %d, runs: %d", out.Expired, out.Freed))
	}
	for _, r := range out.Runs {
		h := r.Head
		text = append(text, fmt.Sprintf("takes %s: %s, entries %d, messages %d, crashes %d",
			s.w.names[h.Number], h.Status, r.Last, len(r.Inbox), h.Crashes))
	}
	for _, r := range out.Mail {
		h := r.Head
		text = append(text, fmt.Sprintf("hears that %s has mail %d", s.w.names[h.Number], h.Mail))
	}
	if err != nil {
		text, out = append(text, "the store says: "+err.Error()), store.Claimed{}
	}
	if text != nil {
		s.w.print(time.Now(), s.of.name+" "+strings.Join(text, ", "))
	}
	return out, err
}

// Load is [store.Store].
func (s *tape) Load(ctx context.Context, n journal.Number, r store.Range) ([]journal.Entry, error) {
	s.w.mu.Lock()
	err := fates[s.w.fate(loads)]
	s.w.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.Store.Load(ctx, n, r)
}

// A transaction is a transaction of the user's. It writes the changes of the kernel when the user
// ends it. If it ends at once, it writes them when the kernel does.
type transaction struct {
	*tape
	atOnce bool
	staged *store.Group
}

// In is [store.Transactor].
func (s *tape) In(tx any) (store.Transaction, error) {
	if t, ok := tx.(*transaction); ok {
		return t, nil
	}
	return nil, &store.TransactionError{Driver: "script", Want: "its own"}
}

// Commit is [store.Transaction].
func (t *transaction) Commit(ctx context.Context, g *store.Group) error {
	if t.staged = g; t.atOnce {
		return t.end(ctx)
	}
	return nil
}

// ReserveID is [store.Transaction].
func (t *transaction) ReserveID(ctx context.Context) (journal.EngineID, error) {
	c, err := t.Claim(ctx, store.ReserveID{})
	return c.Engine, err
}

func (t *transaction) end(ctx context.Context) error {
	return t.write(ctx, " commits a transaction", t.staged)
}

// A printed is a group that was printed. The next group continues it if that has effects of the
// same turn, and this one has had no effect yet: where the one ends and the other begins is a
// matter of chance.
type printed struct {
	title string
	run   journal.Number
	at    time.Time // of the last entry
	lines int
}

// prints prints a group, with its effects if it was written.
func (w *world) prints(title string, g *store.Group, written bool) {
	before, now := w.group, printed{title: title, at: w.group.at, lines: w.group.lines}
	for i, c := range slices.Backward(g.Changes) {
		w.name(&c, written)
		if now.run = c.Run; i == 0 && len(c.Entries) > 0 {
			now.at = c.Entries[len(c.Entries)-1].At
		}
	}
	var head []string // of the group that this one continues
	if now.run == 0 || now != before || len(w.lines) != before.lines {
		w.print(time.Now(), title)
	} else if at := len(w.lines) - 1; strings.Contains(w.lines[at], ": head ") {
		w.lines, head = w.lines[:at:at], w.lines[at:]
	}
	show := func(who, text string) { w.lines = append(w.lines, "  "+w.named(who+": "+text)) }
	for _, c := range g.Changes {
		run := w.names[c.Run]
		if written && c.Create && c.Verdict != store.Written {
			show("a new "+c.Head.WorkflowID, verdicts[c.Verdict])
			continue
		}
		for _, e := range c.Entries {
			show(run, w.entry(e))
		}
		if c.Head != nil {
			show(run, w.head(*c.Head, c.Unload))
		} else {
			w.lines = append(w.lines, head...)
		}
		head = nil
		if written && c.Verdict == store.Mail {
			show(run, fmt.Sprintf("stays, since it has mail %d", c.Found.Mail))
		}
	}
	for _, c := range g.Changes {
		posts := slices.Clone(c.Posts)
		if c.Verdict == store.Exists || c.Verdict == store.Taken {
			posts = append(posts, c.Else...)
		}
		for _, p := range posts {
			text := w.entry(p.Message)
			if written {
				text += fmt.Sprintf(", %s %d", verdicts[p.Verdict], p.Number)
			}
			show("to "+w.names[p.Run]+p.WorkflowID, text)
		}
		if len(c.Told) > 0 {
			show("told", fmt.Sprint(c.Told))
		}
	}
	now.lines = len(w.lines)
	w.group = now
}

var verdicts = map[store.Verdict]string{
	store.Exists: "exists", store.Taken: "is taken", store.Delivered: "delivered as",
	store.Duplicate: "duplicate of", store.Unrouted: "unrouted as", store.Closed: "closed",
	store.Nobody: "for nobody",
}

// name returns the name of the run that a change has made: its workflow ID, or else its workflow.
func (w *world) name(c *store.Change, written bool) {
	if !c.Create || w.names[c.Run] != "" || written && c.Verdict != store.Written {
		return
	}
	name := w.named(c.Head.WorkflowID)
	if c.Head.WorkflowID == string(c.Head.ID) {
		name = "a-" + c.Head.Workflow
	}
	for _, other := range w.names {
		if strings.TrimRight(other, "'") == strings.TrimRight(name, "'") {
			name += "'"
		}
	}
	w.names[c.Run] = name
}

var (
	runIDs   = regexp.MustCompile(`[a-z0-9]{8}-\d+-\d+`)
	times    = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`)
	nanos    = regexp.MustCompile(`"at":\d+`)
	fields   = regexp.MustCompile(`"(\w+)":`)
	outcomes = regexp.MustCompile(`outcome:\d+`)
)

// named replaces run IDs by names, and times by the time since the beginning.
func (w *world) named(text string) string {
	text = nanos.ReplaceAllString(text, `"at":…`)
	text = times.ReplaceAllStringFunc(text, func(s string) string {
		at, _ := time.Parse(time.RFC3339Nano, s)
		return w.offset(at)
	})
	return runIDs.ReplaceAllStringFunc(text, func(id string) string {
		database, _, _ := strings.Cut(id, "-")
		if n, ok := journal.RunID(id).Number(database); ok && w.names[n] != "" {
			return w.names[n]
		}
		return "(new)"
	})
}

func (w *world) offset(at time.Time) string {
	s := strings.Replace(at.Sub(w.began).Round(time.Millisecond).String(), "m0s", "m", 1)
	return "+" + strings.Replace(s, "h0m", "h", 1)
}

// entry returns the parts of an entry that do not change from one time to the next.
func (w *world) entry(e journal.Entry) string {
	text := strings.TrimSpace(e.Kind.String() + " " + e.Op.String())
	if e.Seq > 0 {
		text = fmt.Sprint(e.Seq, " ", text)
	}
	if e.Op.Scope != 0 {
		text += fmt.Sprint(" in ", e.Op.Scope)
	}
	if e.Status != 0 {
		text += " → " + e.Status.String()
	}
	if e.Data != nil {
		text += " = " + shortened(e.Data)
	}
	if e.Spill != 0 {
		text += ", spilled"
	}
	if took := e.Took.Round(time.Millisecond); took > 0 {
		text += ", took " + took.String()
	}
	if e.Detail != nil {
		d := *e.Detail
		d.Engine = 0
		if strings.HasPrefix(d.Message, "own/") {
			d.Message = ""
		}
		if d.Failure != nil {
			f := *d.Failure
			d.Failure, f.Stack = &f, ""
		}
		data, _ := journal.EncodeDetail(&d)
		detail := fields.ReplaceAllString(string(data), "$1:")
		detail = outcomes.ReplaceAllString(detail, "outcome:"+d.Outcome.String())
		text += strings.TrimSuffix(" "+detail, " {}")
	}
	return text
}

func shortened(data []byte) string {
	if len(data) > 250 {
		return fmt.Sprint(len(data), " bytes")
	}
	return string(data)
}

func (w *world) head(h journal.Head, unloads bool) string {
	text := "head " + h.Status.String()
	switch {
	case h.Status.IsTerminal():
	case h.Owner != 0:
		text += ", owned"
	case h.Wake.IsZero():
		text += ", nobody's, never due"
	default:
		text += ", nobody's, due " + w.offset(h.Wake)
	}
	if unloads {
		text += fmt.Sprintf(", unloads knowing mail %d", h.Mail)
	}
	if h.Cause != "" {
		text += ", cause: " + h.Cause
	}
	return text
}

// journals returns journals and heads, and checks the invariants of each: the journal has no hole,
// no step in it ends twice, and the head has the status of the journal.
func (w *world) journals(f store.Filter) (out []string) {
	heads, _, err := w.db.Find(context.Background(), f)
	for _, h := range slices.Backward(heads) {
		entries, failed := w.db.Load(context.Background(), h.Number, store.Range{})
		err = errors.Join(err, failed, journal.Whole(h.Number, 1, entries))
		a := journal.NewAggregate(h.ID, h.WorkflowID, h.Workflow, h.Pattern)
		ended := map[journal.Op]bool{}
		for _, e := range entries {
			out = append(out, w.names[h.Number]+": "+w.entry(e))
			if err = errors.Join(err, a.Apply(e)); e.Kind.EndsStep() && ended[e.Op] {
				w.Errorf("%s: step %v ends twice", w.names[h.Number], e.Op)
			}
			ended[e.Op] = ended[e.Op] || e.Kind.EndsStep()
		}
		out = append(out, w.names[h.Number]+": "+w.head(h, false))
		if s := a.Snapshot().Status; s != h.Status {
			w.Errorf("%s: the head says %v, the journal %v", w.names[h.Number], h.Status, s)
		}
	}
	if err != nil {
		w.Error(err)
	}
	return out
}
