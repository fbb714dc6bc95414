package perduretest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
)

// Export gives the journal of a run, by run ID or workflow ID, with all its
// payloads, as [journal.Write] writes it: what [Replay] takes. It changes nothing
// and may be asked of production, of open runs too. An engine has its client as
// the field Client.
func Export(ctx context.Context, c *perdure.Client, id string) ([]byte, error) {
	entries, err := c.History(ctx, id, 0, 0)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := journal.Write(&b, entries); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// ReplayFile is [Replay] of a file that has what [Export] gave.
func ReplayFile(t *testing.T, name string, workflow perdure.Definition) *Replayed {
	t.Helper()
	history, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return Replay(t, history, workflow)
}

// Replay has the code of a workflow replay the exported history of one of its
// runs, as an engine of a new build would that takes the run up, and says what
// came of it. No effect is executed: no body of a step is called, no child begins,
// no listener is told, and no time passes. What is recorded is given to the code;
// where it asks for a step that has no result, the replay goes no further there.
// A replay by itself fails no test: [Replayed.Fits] does.
//
// The history may be of a run that has ended, or that goes on. A run that was
// cancelled or timed out from outside may come to wait for something instead. The
// code sees another run ID and workflow ID. Replay is not called in [Test].
func Replay(t *testing.T, history []byte, workflow perdure.Definition) *Replayed {
	t.Helper()
	return replay(t, history, workflow, false)
}

// ReplayStrictly is [Replay] as the build replays that wrote the history: what it
// asks for in another order is a mismatch too. A history that several builds wrote
// is replayed by name all the same.
func ReplayStrictly(t *testing.T, history []byte, workflow perdure.Definition) *Replayed {
	t.Helper()
	return replay(t, history, workflow, true)
}

// A Replayed is what came of a replay.
type Replayed struct {
	// Recorded is the status that the history ends in, Status the one that the code
	// came to. A run that has not ended is RUNNING where Stopped is a step, and
	// WAITING or SUSPENDED.
	Recorded, Status journal.Status
	// Stopped says in words where code stands that has not ended.
	Stopped string
	// Differences are what the code does otherwise, in the order of the journal;
	// those that are new come last.
	Differences []Difference

	t testing.TB
}

// A Difference is one thing that code does otherwise than the history that it
// replays.
type Difference struct {
	Kind DifferenceKind
	Path string // of the operation; empty where the run itself is meant
	Text string // more of it, in words
}

// A DifferenceKind says what kind of difference one is.
type DifferenceKind string

// The kinds of differences.
const (
	// the code asks for what is not recorded, before something that is, where an engine suspends
	// the run unless that is decided, or before the recorded end
	DifferenceNew    DifferenceKind = "new"
	DifferenceUnused DifferenceKind = "unused" // recorded, and the code does not ask for it
	// the code does not fit: an engine would park the run
	DifferenceMismatch DifferenceKind = "mismatch"
	// the run ends otherwise than it did, or does not end
	DifferenceOutcome DifferenceKind = "outcome"
)

// String is the difference in a line. The first two words of one that has a path
// are what [Replayed.Fits] accepts.
func (d Difference) String() string {
	s := d.accepted()
	if d.Text != "" {
		s += ": " + d.Text
	}
	return s
}

func (d Difference) accepted() string {
	if d.Path == "" {
		return string(d.Kind)
	}
	return string(d.Kind) + " " + d.Path
}

// String tells of the replay in lines.
func (r *Replayed) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the history ends %v, the code came to %v", r.Recorded, r.Status)
	if r.Stopped != "" {
		b.WriteString(": " + r.Stopped)
	}
	for _, d := range r.Differences {
		b.WriteString("\n\t" + d.String())
	}
	return b.String()
}

// Fits fails the test unless the code does what the history says, but for the
// differences that are accepted, each by its kind and path: "new notify", "unused
// charge", "outcome". What is accepted and does not differ fails it too.
func (r *Replayed) Fits(accepted ...string) {
	r.t.Helper()
	left := slices.Clone(accepted)
	for _, d := range r.Differences {
		if i := slices.Index(left, d.accepted()); i >= 0 {
			left = slices.Delete(left, i, i+1)
			continue
		}
		r.t.Errorf("the code does not fit the history: %v", d)
	}
	for _, a := range left {
		r.t.Errorf("the code does not differ as accepted: %s", a)
	}
	if r.t.Failed() {
		r.t.Log(r)
	}
}

func replay(t *testing.T, history []byte, workflow perdure.Definition, strict bool) *Replayed {
	t.Helper()
	entries, err := journal.Read(bytes.NewReader(history))
	if err == nil {
		err = complete(entries)
	}
	if err != nil {
		t.Fatalf("the history cannot be replayed: %v", err)
	}
	var out *Replayed
	synctest.Test(t, func(t *testing.T) {
		p := &replaying{workflow: workflow, history: entries, strict: strict}
		out, err = p.run()
	})
	if err != nil {
		t.Fatalf("the history cannot be replayed: %v", err)
	}
	out.t = t
	return out
}

// complete says what a journal lacks that is to be replayed.
func complete(entries []journal.Entry) error {
	if len(entries) == 0 {
		return errors.New("it has no entry")
	}
	a := journal.NewAggregate("", "", "", 0)
	for i := range entries {
		if err := a.Apply(entries[i]); err != nil {
			return err
		}
		if entries[i].Spill != 0 && entries[i].Data == nil {
			return fmt.Errorf("the payload of entry %d is not in it: export it again", i+1)
		}
		entries[i].Spill = 0
	}
	return nil
}

// A replaying is one replay while it goes on. It is run in a bubble.
type replaying struct {
	workflow perdure.Definition
	history  []journal.Entry // as it was exported
	strict   bool

	archive *archive
	mu      sync.Mutex
	told    []observe.Notice
	steps   []string // whose bodies would have been called
}

// run replays the history.
func (p *replaying) run() (*Replayed, error) {
	last := p.history[len(p.history)-1]
	recorded := p.history
	if last.Kind.EndsRun() && len(recorded) > 1 {
		recorded = recorded[:len(recorded)-1]
	}
	time.Sleep(time.Until(recorded[len(recorded)-1].At)) // timers that are open then are open now
	eng, err := p.engine(recorded)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- eng.Run(ctx) }()
	synctest.Wait()
	if p.blocks() {
		time.Sleep(time.Minute) // its code waits outside the engine
		synctest.Wait()
	}
	d, err := eng.Describe(context.Background(), string(p.archive.head.ID))
	stop()
	if e := <-done; err == nil {
		err = e
	}
	if err != nil {
		return nil, err
	}
	return p.judge(d), nil
}

// engine gives the engine that is to replay the recorded part of the history.
func (p *replaying) engine(recorded []journal.Entry) (*perdure.Engine, error) {
	o := perdure.Options{
		Build: "replay", Logger: slog.New(slog.DiscardHandler), MaxPayload: 1 << 30,
		SpillOver: 1 << 30, IdleTimeout: patience, CleanUp: -1, Sweep: -1, Drain: -1,
		Interceptor: func(ctx context.Context, step perdure.StepInfo,
			_ func(context.Context) error) error {
			p.mu.Lock()
			p.steps = append(p.steps, step.Step)
			p.mu.Unlock()
			<-ctx.Done()
			return context.Cause(ctx)
		},
		Observers: []observe.Observer{{Kinds: []observe.Kind{observe.ReplayDiffered},
			See: func(n observe.Notice) {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.told = append(p.told, n)
			}}},
	}
	if p.strict {
		o.Build = ""
		for i := range recorded {
			if d := recorded[i].Detail; d != nil && d.Build != "" {
				o.Build = d.Build
			}
		}
	}
	p.archive = &archive{history: recorded}
	eng, err := perdure.New(p.archive, o)
	if err == nil {
		err = eng.Register(p.workflow)
	}
	if err != nil {
		return nil, err
	}
	return eng, p.archive.fill(eng.Workflows()[0])
}

// blocks says whether the code neither has ended nor waits in a durable operation.
func (p *replaying) blocks() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.steps) == 0 && p.archive.status() == journal.Running
}

// judge compares what the code came to with the history.
func (p *replaying) judge(d perdure.Description) *Replayed {
	a := journal.NewAggregate(d.Head.ID, d.Head.WorkflowID, d.Head.Workflow, d.Head.Pattern)
	for i := range p.history {
		_ = a.Apply(p.history[i]) // it is complete
	}
	was := a.Snapshot()
	p.mu.Lock()
	defer p.mu.Unlock()
	out := &Replayed{Recorded: was.Status, Status: d.Head.Status, Stopped: d.Why}
	if !out.Status.IsTerminal() && len(p.steps) > 0 {
		slices.Sort(p.steps)
		out.Stopped = "it is to execute step " + strings.Join(slices.Compact(p.steps), ", step ")
	}
	out.Differences = p.operations(was)
	if d := p.outcome(was, out); d != nil {
		out.Differences = append(out.Differences, *d)
	}
	return out
}

// operations gives the operations that are new or unused: those that the engine
// tells of, and steps that follow the recorded end.
func (p *replaying) operations(was journal.Snapshot) []Difference {
	order := map[string]int{}
	for i, s := range was.Steps {
		order[s.Path] = i
	}
	var out []Difference
	add := func(kind DifferenceKind, path, text string) {
		same := func(d Difference) bool { return d.Kind == kind && d.Path == path }
		if !slices.ContainsFunc(out, same) {
			out = append(out, Difference{kind, path, text})
		}
	}
	for _, n := range p.told {
		if n.Reason == observe.OperationUnused {
			add(DifferenceUnused, n.Step, "recorded, and the code does not ask for it")
		} else {
			add(DifferenceNew, n.Step, "the code asks for it before something that is recorded")
		}
	}
	for _, s := range p.steps {
		if was.Status.IsTerminal() && !stopped(was, s) {
			add(DifferenceNew, s, "the code executes it, and the recorded run has ended")
		}
	}
	slices.SortStableFunc(out, func(a, b Difference) int {
		if a.Kind != b.Kind {
			return cmp.Compare(b.Kind, a.Kind)
		}
		return cmp.Or(cmp.Compare(order[a.Path], order[b.Path]), strings.Compare(a.Path, b.Path))
	})
	return out
}

// stopped says whether the end of the run has stopped a step of that path.
func stopped(was journal.Snapshot, path string) bool {
	return slices.ContainsFunc(was.Steps, func(s journal.Step) bool {
		return s.Path == path && s.Status == journal.StepIsCancelled
	})
}

// outcome gives how the run ends otherwise; nil where it does not.
func (p *replaying) outcome(was journal.Snapshot, r *Replayed) *Difference {
	if last := p.archive.last(); last.Kind == journal.RunSuspended && last.Op.Name != "" {
		return nil // because of an operation that is new
	}
	if f := p.archive.failure(); f != nil {
		failed := was.Failures > 0 || was.Status == journal.Suspended
		if failed && was.Failure != nil && was.Failure.Message == f.Message {
			return nil // as it did
		}
		if f.Code == journal.CodeNondeterministic {
			return &Difference{Kind: DifferenceMismatch, Text: f.Message}
		}
		return &Difference{
			Kind: DifferenceOutcome, Text: fmt.Sprintf("the code fails and the run is %v: %s",
				r.Status, clip(f.Message)),
		}
	}
	if !was.Status.IsTerminal() {
		return nil
	}
	last := p.history[len(p.history)-1]
	if !r.Status.IsTerminal() {
		if last.Kind == journal.RunCancelled || last.Kind == journal.RunTimedOut ||
			len(p.steps) > 0 {
			return nil // from outside; or what the steps would give nobody knows
		}
		return &Difference{
			Kind: DifferenceOutcome, Text: fmt.Sprintf("recorded is %s, the code is %v: %s",
				shown(last), r.Status, r.Stopped),
		}
	}
	if end := p.archive.last(); shown(end) != shown(last) || !bytes.Equal(end.Data, last.Data) {
		return &Difference{
			Kind: DifferenceOutcome, Text: fmt.Sprintf("recorded is %s, the code gives %s",
				shown(last), shown(end)),
		}
	}
	return nil
}

// shown shows the entry that ends a run.
func shown(e journal.Entry) string {
	s := e.Status.String()
	if f := e.Failure(); f != nil {
		s += " by " + clip(f.Message)
		if c := f.CodeOf(); c != "" {
			s += " (" + string(c) + ")"
		}
	}
	if len(e.Data) > 0 {
		s += " with " + clip(string(e.Data))
	}
	return s
}
