package kernel

import (
	"context"
	"fmt"
	"runtime"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
)

// A scope is a namespace of operation names. Its operations are those of one goroutine, the branch.
// The context of workflow code carries it.
type scope struct {
	run    *run
	branch *branch
	id     int64  // the sequence that names it; 0 is the run's own scope
	path   string // the names of the scopes that it is in, each followed by a slash
	// the path that steps are named by: as path. In a clean-up it is the path of the scope that
	// planned it, and in a scope that stands for another one it is the base of that one.
	base   string
	occ    occurrences
	visits visits
	ctx    context.Context // the context that the engine made for it; any other is the author's
	done   <-chan struct{} // the Done channel of ctx
	parent *scope
	users  int              // operations in it, and in scopes within it, that are not over
	unused func()           // ends the context of its branch, which has returned
	over   *journal.Failure // the scope was cancelled, and with it the scopes in it
	last   bool             // steps directly in it make no attempt after the present one
	// of a clean-up: why the branch that planned it was cancelled; nil if the run ends
	cause *journal.Failure
}

type opName struct{ name, key string }

// An occurrences counts how often names occurred in a scope. A short list is searched faster than a
// map.
type occurrences struct {
	few  []occurrence
	many map[opName]int
}

type occurrence struct {
	opName
	n int
}

// next counts an occurrence and returns its number.
func (o *occurrences) next(name opName) int {
	if o.many != nil {
		o.many[name]++
		return o.many[name]
	}
	for i := range o.few {
		if o.few[i].opName == name {
			o.few[i].n++
			return o.few[i].n
		}
	}
	if len(o.few) < fewNames {
		if o.few == nil {
			o.few = make([]occurrence, 0, 6)
		}
		o.few = append(o.few, occurrence{name, 1})
		return 1
	}
	o.many = make(map[opName]int, 2*fewNames)
	for _, f := range o.few {
		o.many[f.opName] = f.n
	}
	o.many[name] = 1
	return 1
}

// A contextKey is the one key under which contexts carry the engine's value: a *scope in workflow
// code, an *attempt in the body of a step.
type contextKey struct{}

// A call names the call of workflow code, for error messages.
type call struct{ verb, name string }

func (c call) String() string {
	if c.name == "" {
		return c.verb
	}
	return c.verb + " " + c.name
}

// scopeOf returns the scope that ctx carries.
func scopeOf(ctx context.Context, what call) (*scope, error) {
	switch v := ctx.Value(contextKey{}).(type) {
	case *scope:
		return v, nil
	case *attempt:
		return nil, &journal.Error{
			Code: journal.CodeMisuse, Op: what.String(), Message: "called in the body of step " +
				v.op.path(),
			Hint: "durable operations belong in workflow code; what a step does is ordinary code",
		}
	}
	return nil, &journal.Error{
		Code: journal.CodeMisuse, Op: what.String(), Message: "called outside a workflow",
		Hint: "pass on the context that the workflow function was given",
	}
}

// Outside refuses a call with the context of workflow code: a replay would make it again. The
// context of a step is fine, since the step is recorded.
func Outside(ctx context.Context, op string) error {
	if _, inside := ctx.Value(contextKey{}).(*scope); !inside {
		return nil
	}
	return &journal.Error{
		Code: journal.CodeMisuse, Op: op, Message: "called in workflow code, where every replay " +
			"would do it again",
		Hint: "do it in a step, with the context of that; a run that belongs to this one " +
			"is a child",
	}
}

// inside begins a durable operation of the scope that ctx carries. It returns the scope with
// the lock of its run, which the caller releases.
func inside(ctx context.Context, what call) (*scope, error) {
	s, err := scopeOf(ctx, what)
	if err != nil {
		return nil, err
	}
	return s, s.lock(what)
}

// asking does the same as inside, for an operation that a context of the author's may end. If ctx
// has ended already, it returns that end as a failure; else nil.
func asking(ctx context.Context, what call) (*scope, *journal.Failure, error) {
	s, err := scopeOf(ctx, what)
	if err != nil {
		return nil, nil, err
	}
	over := s.overBefore(ctx)
	return s, over, s.lock(what)
}

// overBefore returns the end of ctx as a failure, if the author made ctx and it has ended; else
// nil. The context may be the author's own code, so overBefore is called without the lock.
func (s *scope) overBefore(ctx context.Context) *journal.Failure {
	if !s.foreign(ctx) || ctx.Err() == nil {
		return nil
	}
	return contextFailure(ctx)
}

// lock begins a durable operation. If it returns no error, the lock is held.
func (s *scope) lock(what call) (err error) {
	entered := false
	s.run.mu.Lock()
	defer func() { // also if the goroutine ends
		if !entered {
			s.run.mu.Unlock()
		}
	}()
	err = s.enter(what)
	entered = err == nil
	return err
}

// stay ends the calling goroutine where the run has left memory and the goroutine is the
// run's. Any other goroutine has kept the context for too long: it gets an error.
func (s *scope) stay(what call) error {
	if !s.run.hasLeft() {
		return nil
	}
	if s.isOwn() {
		s.run.stay()
	}
	return &journal.Error{
		Code: journal.CodeMisuse, Op: what.String(),
		Message: "called with the context of run " + string(s.run.id()) +
			", which has left this engine's memory",
		Hint: "keep the context of workflow code nowhere, and pass it to the run's own " +
			"code only; " +
			"other code sends the run signals",
	}
}

// enter begins a durable operation. It is called with the lock. It refuses an operation of a
// goroutine that cannot hold the turn, and an operation of a run that is over.
func (s *scope) enter(what call) error {
	b := s.branch
	if err := s.stay(what); err != nil {
		return err
	}
	for b.state == isOutside { // it may be lent again before this goroutine has the lock
		b.regainTurn()
		if err := s.stay(what); err != nil {
			return err
		}
	}
	if err := s.ended(); err != nil {
		return err
	}
	if b.state != isHolder {
		return &journal.Error{
			Code: journal.CodeMisuse, Op: what.String(),
			Message: fmt.Sprintf("called while the workflow waits in %s", s.show(b.at)),
			Hint: "a step uses its own context, and goroutines of a workflow are " +
				"started with Go",
		}
	}
	return nil
}

// A Change describes what has changed about an operation since older builds.
type Change struct {
	Was   string // the name of the operation in older builds
	Added bool   // older builds did not have the operation
}

// An asked describes an operation that code asks for.
type asked struct {
	name, key string
	class     class
	Change
	inert bool // it has no effect that must not be repeated
}

// ask returns the identity of the next operation of that name and key, and its record. If the code
// does not fit the journal, the run is parked and the goroutine ends.
func (s *scope) ask(q asked) (journal.Op, *record) {
	op := journal.Op{Scope: s.id, Name: q.name, Key: q.key, Occ: s.occ.next(opName{q.name, q.key})}
	s.branch.at = op
	m := s.run.memo
	if m == nil {
		s.branch.tells(op, nil)
		return op, nil
	}
	if q.Was != "" && m.ops[op] == nil {
		old := op
		old.Name = q.Was
		if m.ops[old] != nil {
			op = old
		}
	}
	rec, err := m.ask(op, q.class)
	if err != nil {
		s.branch.mismatch(err)
	}
	if rec == nil {
		if ahead := m.ahead(op.Scope, q.class); ahead != nil {
			s.add(op, q, ahead)
		}
	}
	s.branch.tells(op, rec)
	s.advise(op, q.key, rec)
	return op, rec
}

// add lets an operation go on that is new in another build, although recorded operations lie ahead.
// The operation may be one of these under another name, and then its effect would happen twice. So
// the run is suspended, unless the code or an operator has decided about the operation.
func (s *scope) add(op journal.Op, q asked, ahead *record) {
	r, m := s.run, s.run.memo
	switch {
	case r.over():
	case m.recorded[op]:
	case q.Added || q.inert || r.def.ByName || m.byName:
		r.append(journal.Entry{Kind: journal.OperationAdded, Op: op})
	default:
		r.unappend()
		r.observed.advise(observe.ReplayDiffered, s.show(op), observe.OperationNew)
		cause := fmt.Sprintf("this build's code has %s %q, which is not recorded; an older build "+
			"has recorded %s %q as entry %d, which this code has not asked for yet",
			q.class, s.show(op), ahead.class, s.show(ahead.op), ahead.first)
		r.suspendAt(op, &journal.Detail{
			Reason:  "undecided: " + cause + ". " + howToDecide(q, ahead),
			Failure: &journal.Failure{Code: journal.CodeNondeterministic, Message: cause},
		})
		runtime.Goexit()
	}
}

// howToDecide returns the hint for an operator and an author about a new operation.
func howToDecide(q asked, ahead *record) string {
	is, say := "It was added before what has happened. ", "Added"
	if q.class == ahead.class {
		is, say = "It is that one renamed, or was added before what has happened. ",
			fmt.Sprintf("RenamedFrom(%q), Added", ahead.op.Name)
	}
	return is + "Deploy code that says " + say + " or asks Version, and resume the run; if it is " +
		"resumed with this code, it goes on by name, and what is new is performed"
}

// advise notifies observers that the code of another build has a new operation.
func (s *scope) advise(op journal.Op, key string, rec *record) {
	r := s.run
	if r.memo.strict || r.memo.retried || rec == nil {
		return
	}
	for _, added := range r.memo.added(s.id) {
		r.observed.advise(observe.ReplayDiffered, s.show(added), observe.OperationNew)
	}
	if op.Occ > 1 && key == "" {
		r.observed.advise(
			observe.KeyAdvised, s.show(op),
			"another build replays an occurrence of a name: give it a key",
		)
	}
}

// ended returns the termination error if the run, the scope, or a scope that it is in is over.
func (s *scope) ended() error {
	if end := s.run.ended(); end != nil {
		return end
	}
	if f := s.cancelled(); f != nil {
		if c := s.run.ending.closing(); c != nil && f == c.over {
			return c.end
		}
		return &journal.Error{Code: f.Code, Message: f.Message}
	}
	return nil
}

// cancelled returns the reason why the scope, or a scope that it is in, was cancelled; nil if none
// was.
func (s *scope) cancelled() *journal.Failure {
	for ; s != nil; s = s.parent {
		if s.over != nil {
			return s.over
		}
	}
	return nil
}

// show returns the path of an operation of this scope.
func (s *scope) show(op journal.Op) string { return s.path + op.String() }

// foreign reports whether ctx can end for a reason that the engine does not know.
func (s *scope) foreign(ctx context.Context) bool { return ctx.Done() != s.done }

// Own returns ctx without the contexts that the author has put around it: it has the same values,
// and it ends only with the run or the branch. Bounded reports whether the author has put any
// around it.
func Own(ctx context.Context) (own context.Context, bounded bool) {
	s, _ := ctx.Value(contextKey{}).(*scope)
	if s == nil || !s.foreign(ctx) {
		return ctx, false
	}
	return unbounded{s.ctx, context.WithoutCancel(ctx)}, true
}

// An unbounded is a context with the values of another one.
type unbounded struct {
	context.Context
	values context.Context
}

func (u unbounded) Value(key any) any {
	if v := u.values.Value(key); v != nil {
		return v
	}
	return u.Context.Value(key) // a context made of u finds by this key the context to end with
}

// A Naming names a branch or a scope.
type Naming struct {
	Name, Key string
	Change
	StandsFor context.Context // the scope that it stands for; nil for none
	ForStep   string          // the step beside it that the branch performs; empty for none
}

// Open opens a scope without a goroutine: a namespace for the operations that are called with the
// context that Open returns.
func Open(ctx context.Context, n Naming) (context.Context, error) {
	s, err := inside(ctx, call{"scope", n.Name})
	if err != nil {
		return nil, err
	}
	r := s.run
	defer r.mu.Unlock()
	in, err := s.open(n, false)
	if err != nil {
		return nil, err
	}
	in.branch, in.ctx, in.done = s.branch, s.ctx, s.done
	return context.WithValue(ctx, contextKey{}, in), nil
}

// open returns the scope of the next operation of that name, and records it if it is new. The scope
// of a branch has a goroutine of its own.
func (s *scope) open(n Naming, branch bool) (*scope, error) {
	r := s.run
	d := journal.Detail{ScopeDetail: journal.ScopeDetail{Branch: branch, ForStep: n.ForStep}}
	var of *scope
	if n.StandsFor != nil {
		if of, _ = n.StandsFor.Value(contextKey{}).(*scope); of == nil || of.run != r ||
			of.id == 0 {
			return nil, &journal.Error{
				Code: journal.CodeMisuse, Op: "scope " + n.Name,
				Message: "it stands for no scope of this run",
			}
		}
		d.StandsFor = of.id
	}
	op, rec := s.ask(asked{n.Name, n.Key, isScope, n.Change, false})
	in := &scope{run: r, parent: s, path: s.show(op) + "/"}
	if in.base = in.path; of != nil {
		in.base = of.base
	}
	if rec != nil {
		in.id = rec.opens
	} else {
		e := journal.Entry{Kind: journal.ScopeOpened, Op: op}
		if d.Branch || d.StandsFor != 0 || d.ForStep != "" {
			e.Detail = &d
		}
		in.id = r.append(e)
	}
	r.observed.name(in)
	return in, nil
}

// Go runs body as a branch of the workflow, on a goroutine and with a scope of its own, and returns
// the operation that ends with the branch.
func Go(ctx context.Context, n Naming, body func(context.Context) ([]byte,
	*journal.Failure)) (*Operation, error) {
	s, err := inside(ctx, call{"go", n.Name})
	if err != nil {
		return nil, err
	}
	r := s.run
	defer r.mu.Unlock()
	in, err := s.open(n, true)
	if err != nil {
		return nil, err
	}
	own, cancel := context.WithCancelCause(ctx)
	in.ctx, in.done = own, own.Done()
	if s.foreign(ctx) { // Own returns a context that ends with the branch and not with ctx
		base, stop := context.WithCancelCause(s.ctx)
		end := cancel
		cancel = func(cause error) { end(cause); stop(cause) }
		in.ctx, in.done = base, base.Done()
	}
	o := &operation{run: r, scope: s, id: s.branch.at, class: isScope, opened: in, cancel: cancel}
	r.operations.begin(o)
	r.operations.track(o)
	b := &branch{run: r, scope: in, wake: make(chan struct{}, 1), op: o}
	in.branch = b
	b.body = func() {
		var data []byte
		var failure *journal.Failure
		b.workflow(func() { data, failure = body(context.WithValue(own, contextKey{}, in)) })
		r.mu.Lock()
		defer r.mu.Unlock()
		b.returned(data, failure)
	}
	r.add(b, false)
	r.k.lends.contend(r)
	return (*Operation)(o), nil
}

// use counts operations that are not over. When a branch has returned and no operation in it needs
// its context any more, use ends the context.
func (s *scope) use(n int) {
	for ; s != nil; s = s.parent {
		s.users += n
		if s.users == 0 && s.unused != nil {
			s.unused()
		}
	}
}
