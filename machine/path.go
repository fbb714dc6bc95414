package machine

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/pattern"
)

// A path is a way from step to step: that of the run, or of the branch of a split. It is workflow
// code of one goroutine. Others read stopped and waits in their turns.
type path struct {
	x       *execution
	above   *path           // the path that has split; nil for that of the run
	prefix  string          // of the paths of its visits, for people
	ctx     context.Context // of the branch; nil for the path of the run
	visits  map[string]int  // by step
	failure *Failure        // by which an error route leads here; nil for none
	open    []*path         // branches that go on
	future  *perdure.Future[json.RawMessage]
	failed  *failed // how the branch has ended; nil if it has not failed
	waits   bool    // it is between two calls of a step
	stopped bool    // it begins no further call
}

// A stop is the error of a path that was stopped.
type stop struct{}

func (stop) Error() string { return "the split has ended" }

// walk goes from step to step until one has no next, and returns the output of that one. A failure
// that no route of a step takes is returned as a *failed. Any other error means that the run, or
// the branch, ends.
func (p *path) walk(ctx context.Context, at string, in json.RawMessage) (json.RawMessage, error) {
	for {
		s := p.x.byID[at]
		next, out, err := p.visit(ctx, s, in)
		f, is := err.(*failed) //nolint:errorlint // made by this package, and never wrapped
		switch {
		case is && p.stopped:
			return nil, stop{}
		case is:
			if at = takes(s.routes, f.err); f.step != s || at == "" || at == s.id || p.isOver(at) {
				return nil, f
			}
			p.failure = f.failure()
			continue
		case err != nil:
			return nil, err
		case next == "":
			return out, nil
		}
		at, in = next, out
		if p.stopped {
			return nil, stop{}
		}
	}
}

// A visit is the time that a path spends at a step.
type visit struct {
	p     *path
	s     *step
	key   string
	in    json.RawMessage
	state json.RawMessage
	late  bool
	last  pattern.Visited
	task  pattern.Visit

	decided map[string]approval.Outcome // by the keys of asks
	tries   retrying
}

// visit comes to a step, and leaves it. It returns the next step and the input of that.
func (p *path) visit(ctx context.Context, s *step, in json.RawMessage) (next string,
	out json.RawMessage, err error) {
	v := &visit{p: p, s: s, in: in}
	n := p.visits[s.id] + 1
	if p.visits[s.id] = n; n > 1 {
		v.key = strconv.Itoa(n)
	}
	if n, most := p.visitsOf(s), p.x.most; n > most {
		return "", nil, v.fails(perdure.Permanent(fmt.Errorf("the run comes to the step for the "+
			"%dth time, and the limit is %d: let it return ContinueAsNew before, or raise "+
			"Machine.Visits", n, most)))
	}
	v.begin()
	for {
		if err := v.call(ctx); err != nil {
			return "", nil, err
		}
		if kind(v.last.Then) == completes {
			return v.complete()
		}
		var r record
		if r, err = pattern.Decode[record](v.last.Data); err != nil {
			return "", nil, v.fails(err)
		}
		if r.State != nil {
			v.state = r.State
		}
		if kind(v.last.Then) == splits {
			return v.split(ctx, r)
		}
		if p.stopped {
			return "", nil, stop{}
		}
		p.waits = true
		next, over, err := v.wait(ctx, r)
		if p.waits = false; err != nil {
			return "", nil, err
		}
		if over {
			return next, in, nil
		}
	}
}

// visitsOf returns how often the way to this place has come to a step: on this path, and on those
// that have split to it.
func (p *path) visitsOf(s *step) (n int) {
	for ; p != nil; p = p.above {
		n += p.visits[s.id]
	}
	return n
}

// isOver reports whether a step was refused because of the limit on visits. An error route leads to
// it no more: otherwise routes could lead in a circle without end.
func (p *path) isOver(step string) bool {
	return p.visitsOf(p.x.byID[step]) > p.x.most
}

// fails returns the failure of the visit.
func (v *visit) fails(err error) error {
	return &failed{step: v.s, input: v.in, path: v.path(), err: err, tries: 1}
}

// ended returns the error by which the run, or the branch, ends; or else err as the failure of the
// visit.
func (v *visit) ended(ctx context.Context, err error) error {
	if _, is := err.(*failed); is { //nolint:errorlint // made by this package, and never wrapped
		return err
	}
	if over := pattern.EndedBy(ctx); over != nil {
		return over
	}
	return v.fails(err)
}

// path returns the name of the visit as people see it.
func (v *visit) path() string {
	if v.key == "" {
		return v.p.prefix + v.s.id
	}
	return v.p.prefix + v.s.id + "[" + v.key + "]"
}

// complete leaves the step for the next one.
func (v *visit) complete() (next string, out json.RawMessage, err error) {
	if v.last.Skipped() {
		v.last.Next, err = v.s.next(v.s.afterSkip(), v.last.Data)
	} else {
		v.p.done(v.s, v.key, v.in, v.last.Data)
	}
	if err != nil {
		return "", nil, v.fails(err)
	}
	if next = v.last.Next; next == "" && len(v.s.targets) == 1 {
		next = v.s.targets[0]
	}
	if next == End {
		next = ""
	}
	return next, v.last.Data, nil
}

// wait does what the action asks for before the step is called again. over means that the visit has
// ended instead, and the machine goes on with next, if there is one.
func (v *visit) wait(ctx context.Context, r record) (next string, over bool, err error) {
	v.late = false
	in := true
	switch kind(v.last.Then) {
	case yields:
	case sleeps:
		err = perdure.Sleep(ctx, r.After, perdure.Key(v.s.id))
	case suspends:
		in, err = v.task.Signal(ctx, v.last, r.After)
	case asks:
		in, err = v.approve(ctx, *r.Ask)
	case parents:
		err = v.startChildren(ctx, r.Children)
	case continues:
		err = v.continueAsNew(ctx, r)
	default:
		err = v.fails(fmt.Errorf("action %s is not known to this program", v.last.Then))
	}
	if err != nil {
		return "", false, v.ended(ctx, err)
	}
	if in {
		return "", false, nil
	}
	if r.Late == "" {
		v.late = true
		return "", false, nil
	}
	return r.Late, true, pattern.Record(ctx, pattern.Fact{
		Kind: pattern.StepSkipped, Name: v.s.id, Key: v.key,
		Reason: "its time has passed: it goes on with " + r.Late,
	})
}

// startChildren starts the children that the run does not have yet, and waits for all.
func (v *visit) startChildren(ctx context.Context, wanted []Child) error {
	x := v.p.x
	for _, c := range wanted {
		if x.children[c.Key] != nil {
			if x.named[c.Key] != c.Workflow {
				return v.fails(fmt.Errorf("child %s is a run of workflow %s, not of %s: use "+
					"another key", c.Key, x.named[c.Key], c.Workflow))
			}
			continue
		}
		x.children[c.Key], x.named[c.Key] = c.start(ctx), c.Workflow
	}
	for _, c := range wanted {
		out, err := x.children[c.Key].Outcome(ctx)
		over := pattern.EndedBy(ctx)
		if over != nil { // the child is cancelled with the branch that has started it
			out = perdure.Outcome[json.RawMessage]{Status: perdure.StatusCancelled, Err: over}
		}
		x.mu.Lock()
		_, known := x.outcomes[c.Key]
		if !known && (err == nil || over != nil) {
			x.outcomes[c.Key], known = out, true
		}
		x.mu.Unlock()
		switch {
		case over != nil:
			return over
		case !known:
			return v.fails(err)
		}
	}
	return nil
}

// start starts the child. Its workflow may be one that this program does not know.
func (c Child) start(ctx context.Context) *perdure.Child[json.RawMessage] {
	type raw = json.RawMessage
	none := func(context.Context, raw) (raw, error) { return nil, nil }
	w := perdure.Define(c.Workflow, none)
	opts := []perdure.ChildOption{perdure.Key(c.Key)}
	if c.ID != "" {
		opts = append(opts, perdure.ID(c.ID))
	}
	if c.Ends {
		opts = append(opts, perdure.ChildEnds)
	}
	return w.Child(ctx, c.Input, opts...)
}

// continueAsNew ends the run. Its successor may keep the version. The header that says so has the
// run too: it is copied to successors of the successor, and is not for them.
func (v *visit) continueAsNew(ctx context.Context, r record) error {
	if p := v.p.x.plan; r.Same {
		info, err := perdure.InfoOf(ctx)
		if err != nil {
			return err
		}
		h := perdure.Headers{marker: fmt.Sprintf("%s=%d@%s", p.name, p.version, info.RunID)}
		if err := h.Set(ctx); err != nil {
			return err
		}
	}
	return perdure.ContinueAsNew(ctx, r.Input)
}

// maxDelay limits the delay before a step is tried again.
const maxDelay = 24 * time.Hour
