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

// Export returns the journal of a run, by run ID or workflow ID, with all its payloads, as
// [journal.Write] writes it. [Replay] takes this form. Export changes nothing and may be used in
// production, also for open runs. The field Client of an engine has its client.
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

// ReplayFile is [Replay] of a file that has the result of [Export].
func ReplayFile(t *testing.T, name string, workflow perdure.Definition) *Replayed {
	t.Helper()
	history, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return Replay(t, history, workflow)
}

// Replay makes the code of a workflow replay the exported history of one of its runs, and returns
// the result. The code is replayed as by an engine of a new build. No effect is executed: no body
// of a step is called, no child begins, no listener is called, and no time passes. The code gets
// the recorded results. At a step that has no result, the replay of that part of the code stops. A
// replay by itself fails no test: [Replayed.Fits] does.
//
// The history may be of a run that has ended, or of one that goes on. A run that was cancelled or
// timed out from outside may wait instead at the end of the replay. The code sees another run ID
// and workflow ID. Do not call Replay in [Test].
func Replay(t *testing.T, history []byte, workflow perdure.Definition) *Replayed {
	t.Helper()
	return replay(t, history, workflow, false)
}

// ReplayStrictly replays as [Replay] does, but as the build that wrote the history would: an
// operation in another order is a mismatch too. A history that several builds wrote is still
// replayed by name.
func ReplayStrictly(t *testing.T, history []byte, workflow perdure.Definition) *Replayed {
	t.Helper()
	return replay(t, history, workflow, true)
}

// A Replayed is the result of a replay.
type Replayed struct {
	// Recorded is the status at the end of the history. Status is the status that the code came
	// to. A run that has not ended is RUNNING if Stopped is a step, and otherwise WAITING or
	// SUSPENDED.
	Recorded, Status journal.Status
	// Stopped describes where the code of a run that has not ended stands, or the error that the
	// code came to, with the step that it is from.
	Stopped string
	// Differences are the differences of the code from the history, in the order of the journal.
	// New operations come last.
	Differences []Difference

	t testing.TB
}

// A Difference is one difference of code from the history that it replays.
type Difference struct {
	Kind DifferenceKind
	Path string // path of the operation; empty for the run itself
	Text string // details, in words
}

// A DifferenceKind is the first word of the line that [Difference.String] returns.
type DifferenceKind string

// The kinds of differences.
const (
	// The code asks for an operation that is not recorded, before a recorded operation or before
	// the recorded end. Before a recorded operation, an engine suspends the run, unless the code
	// decides about the operation ([perdure.Added]).
	DifferenceNew    DifferenceKind = "new"
	DifferenceUnused DifferenceKind = "unused" // recorded, and the code does not ask for it
	// The code does not fit: an engine would park the run.
	DifferenceMismatch DifferenceKind = "mismatch"
	// The run does not end as it did, or does not end at all.
	DifferenceOutcome DifferenceKind = "outcome"
)

// String returns the difference in one line. If it has a path, [Replayed.Fits] accepts it by the
// first two words of the line.
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

// String returns a description of the replay in several lines.
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

// Fits fails the test if the code differs from the history. It accepts the given differences, each
// named by its kind and path: "new notify", "unused charge", "outcome". An accepted difference that
// does not occur also fails the test.
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

// complete returns an error if a journal lacks parts that the replay needs.
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

// A replaying is a replay in progress. It runs in a bubble.
type replaying struct {
	workflow perdure.Definition
	history  []journal.Entry // as it was exported
	strict   bool

	archive *archive
	mu      sync.Mutex
	told    []observe.Notice
	steps   []string // steps whose bodies would have been called
}

// run replays the history.
func (p *replaying) run() (*Replayed, error) {
	last := p.history[len(p.history)-1]
	recorded := p.history
	if last.Kind.EndsRun() && len(recorded) > 1 {
		recorded = recorded[:len(recorded)-1]
	}
	// timers that are open at the end of the history are open now
	time.Sleep(time.Until(recorded[len(recorded)-1].At))
	eng, err := p.engine(recorded)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- eng.Run(ctx) }()
	synctest.Wait()
	if p.blocks() {
		time.Sleep(time.Minute) // the code waits outside the engine
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

// engine returns the engine that is to replay the recorded part of the history.
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

// blocks reports whether the code has not ended and waits in no durable operation.
func (p *replaying) blocks() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.steps) == 0 && p.archive.status() == journal.Running
}

// judge compares the outcome of the code with the history.
func (p *replaying) judge(d perdure.Description) *Replayed {
	a := journal.NewAggregate(d.Head.ID, d.Head.WorkflowID, d.Head.Workflow, d.Head.Pattern)
	for i := range p.history {
		_ = a.Apply(p.history[i]) // the history is complete
	}
	was := a.Snapshot()
	p.mu.Lock()
	defer p.mu.Unlock()
	out := &Replayed{Recorded: was.Status, Status: d.Head.Status, Stopped: d.Why}
	if !out.Status.IsTerminal() && len(p.steps) > 0 {
		slices.Sort(p.steps)
		out.Stopped = "it is to execute step " + strings.Join(slices.Compact(p.steps), ", step ")
	}
	if f := d.State.Failure; out.Status.IsTerminal() && f != nil {
		out.Stopped = clip(f.Text())
	}
	out.Differences = p.operations(was)
	if d := p.outcome(was, out); d != nil {
		out.Differences = append(out.Differences, *d)
	}
	return out
}

// operations returns the operations that are new or unused: those that the engine reports, and
// steps that follow the recorded end.
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

// stopped reports whether the end of the run has stopped a step of that path.
func stopped(was journal.Snapshot, path string) bool {
	return slices.ContainsFunc(was.Steps, func(s journal.Step) bool {
		return s.Path == path && s.Status == journal.StepIsCancelled
	})
}

// outcome returns the difference between the ends of the run, or nil if there is none.
func (p *replaying) outcome(was journal.Snapshot, r *Replayed) *Difference {
	if last := p.archive.last(); last.Kind == journal.RunSuspended && last.Op.Name != "" {
		return nil // because of a new operation
	}
	if f := p.archive.failure(); f != nil {
		failed := was.Failures > 0 || was.Status == journal.Suspended
		if failed && was.Failure != nil && was.Failure.Message == f.Message {
			return nil // the end is the same
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
			return nil // from outside; or the results of the steps are not known
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

// shown describes the entry that ends a run.
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
