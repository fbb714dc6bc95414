package kernel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/rules"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A code is workflow code in one activation of a run. It goes through the lines of its workflow,
// and calls the kernel as the root package does. What it has seen is its output, so replays show.
// An operation that fails ends it, unless its line begins with try.
type code struct {
	w       *world
	of      *engine
	run     string
	futures map[string]*kernel.Operation
	seen    []string
	result  []byte
}

// define returns the workflow of a line.
func define(w *world, of *engine, l line) *kernel.Workflow {
	first, _ := journal.ParseStatus(l.opts["first"])
	wf := &kernel.Workflow{
		Name: l.word(1), First: first, Timeout: l.time("timeout"), Next: policy(l),
		ByName: l.says("by-name"), CleansUp: l.says("cleans-up"),
		Panics: func(n int) (time.Duration, bool) {
			return time.Second << (n - 1), n < l.number("panics", 0)
		},
	}
	if l.opts["tells"] != "" {
		wf.Listeners = append(wf.Listeners, w.listener(of, line{words: []string{l.opts["tells"]}}))
	}
	limited(wf, l)
	wf.Body = func(ctx context.Context, input []byte) ([]byte, *journal.Failure) {
		i, _ := kernel.InfoOf(ctx)
		w.mu.Lock()
		c := &code{w: w, of: of, futures: map[string]*kernel.Operation{}}
		c.run = w.named(string(i.RunID))
		w.mu.Unlock()
		if input != nil {
			c.seen = append(c.seen, shortened(input))
		}
		who, how := "code of "+c.run, " leaves memory"
		w.note(of, who, " begins")
		defer func() { w.note(of, who, how) }()
		switch err := c.do(ctx, l.body); err {
		case nil:
			how, c.result = " returns", []byte(strings.Join(c.seen, ", "))
		case errReturned:
			how = " returns"
		default:
			how = " fails: " + err.Error()
			return nil, failureOf(err)
		}
		return c.result, nil
	}
	return wf
}

// limited sets the limits that the line of a workflow has: slots=1 for its runs, token=10s between
// their begins; one=joins, one=replaces, or gathers=3 quiet=10s for starts beside an open run.
func limited(wf *kernel.Workflow, l line) {
	var all []store.Ask
	wf.Singleton = map[string]kernel.Singleton{"joins": 1, "replaces": 2}[l.opts["one"]]
	if most := l.number("gathers", 0); most > 0 {
		wf.Gather = &kernel.Gather{Quiet: l.time("quiet"), Most: most, Union: together}
	}
	if wf.Singleton != 0 || wf.Gather != nil {
		all = append(all, store.Ask{Slot: rules.OneSlot, Limit: wf.Name + rules.OneLimit, Max: 1})
	}
	if every := l.time("token"); every > 0 {
		all = append(all, store.Ask{
			Slot: rules.StartToken, Limit: wf.Name + rules.RateLimit, Every: every, Burst: 1,
		})
	}
	if most := l.number("slots", 0); most > 0 {
		all = append(all, store.Ask{Slot: rules.RunSlot, Limit: wf.Name, Max: most})
	}
	if all == nil {
		return
	}
	wf.Limits = func(input []byte) ([]store.Ask, *journal.Failure) {
		if string(input) == "no-key" {
			return nil, &journal.Failure{Code: journal.CodeInvalid, Message: "there is no key"}
		}
		return slices.Clone(all), nil
	}
}

// together is the union of inputs.
func together(inputs [][]byte) ([]byte, error) { return bytes.Join(inputs, []byte("+")), nil }

// policy returns the retry policy of a line: tries=3 retry=1s.
func policy(l line) func(int, *journal.Failure) (time.Duration, bool) {
	return func(n int, _ *journal.Failure) (time.Duration, bool) {
		return l.time("retry"), n < l.number("tries", 0)
	}
}

var errReturned = errors.New("the code returns")

// A failed is a failure as an error.
type failed struct{ *journal.Failure }

func (f failed) Error() string { return f.Message }

func failureOf(err error) *journal.Failure {
	if err == nil {
		return nil
	} else if f, ok := err.(failed); ok {
		return f.Failure
	}
	return &journal.Failure{Code: journal.CodeOf(err), Message: err.Error()}
}

func (c *code) do(ctx context.Context, lines []line) error {
	for _, l := range lines {
		try := l.verb == "try"
		if try {
			l = l.tail()
		}
		saw, err := c.operate(ctx, l)
		if err != nil && !try {
			return err
		} else if err != nil {
			saw = "failed: " + err.Error()
		}
		if saw != "" {
			c.w.mu.Lock()
			c.seen = append(c.seen, strings.TrimSpace(l.verb+" "+l.word(1))+" "+saw)
			c.w.mu.Unlock()
		}
	}
	return nil
}

// seen returns the outcome of a call as the code prints it.
func seen(out kernel.Outcome, err error) (string, error) {
	if err == nil && out.Failure != nil {
		f := *out.Failure
		f.Settled = true
		err = failed{&f}
	}
	return shortened(out.Data), err
}

// operate carries out an operation, and returns the result as the code prints it.
func (c *code) operate(ctx context.Context, l line) (string, error) {
	name := l.word(1)
	c.w.mu.Lock() // code whose turn was lent goes on beside others
	future := c.futures[name]
	c.w.mu.Unlock()
	begun := func(o *kernel.Operation, err error) (string, error) {
		c.w.mu.Lock()
		defer c.w.mu.Unlock()
		c.futures[name] = o
		return "", err
	}
	switch l.verb {
	case "step":
		return seen(kernel.Do(ctx, c.step(l)))
	case "async":
		return begun(kernel.Async(ctx, c.step(l)))
	case "go":
		branch := func(ctx context.Context) ([]byte, *journal.Failure) {
			return []byte("done"), failureOf(c.do(ctx, l.body))
		}
		return begun(kernel.Go(ctx, kernel.Naming{Name: name}, branch))
	case "scope":
		in, err := kernel.Open(ctx, kernel.Naming{Name: name})
		if err == nil {
			err = c.do(in, l.body)
		}
		return "", err
	case "within":
		bounded, cancel := context.WithTimeout(ctx, duration(name))
		defer cancel()
		return "", c.do(bounded, l.body)
	case "await":
		return seen(future.Await(ctx))
	case "poll":
		out, known := future.State()
		return fmt.Sprint(known, " ", shortened(out.Data)), nil
	case "stop":
		stopped, err := future.Cancel(ctx, "not needed")
		return fmt.Sprint(stopped), err
	case "stop-child":
		return "", future.CancelChild(ctx, "not needed")
	case "each":
		return c.each(ctx, l.words)
	case "sleep":
		return seen(kernel.Sleep(ctx, kernel.Timer{For: duration(name)}))
	case "timer":
		o, _, err := kernel.StartTimer(ctx, kernel.Timer{Name: name, For: duration(l.word(2))})
		return begun(o, err)
	case "wait":
		return seen(kernel.Receive(ctx, l.wait()))
	case "listen":
		return begun(kernel.WaitFor(ctx, l.wait()))
	case "peek":
		return peek(ctx, name)
	case "take":
		n, _ := strconv.ParseInt(name, 10, 64)
		ok, err := kernel.TakeMessage(ctx, n)
		return fmt.Sprint(ok), err
	case "lock":
		lock := kernel.Lock{
			Name: name, Limit: l.opts["of"], Max: l.number("slots", 1), Within: l.time("within"),
		}
		slot, err := kernel.Acquire(ctx, lock)
		if err == nil {
			err = errors.Join(c.do(ctx, l.body), kernel.Free(ctx, lock, slot))
		}
		return "", err
	case "child":
		o, _, err := kernel.StartChild(ctx, kernel.Child{
			Name: name, Workflow: l.opts["of"], ID: l.opts["id"], Input: l.data(2),
			Policy: l.opts["policy"],
		})
		return begun(o, err)
	case "decide":
		d, err := kernel.Decide(ctx, kernel.Decision{
			Name: name, Reason: "somebody must say", Choices: strings.Split(l.opts["choices"], ","),
		})
		return d.Choice, err
	}
	return c.state(ctx, l, name)
}

// state carries out an operation that concerns the run itself.
func (c *code) state(ctx context.Context, l line, name string) (string, error) {
	status, _ := journal.ParseStatus(name)
	note := func(kind journal.Kind, status journal.Status) (string, error) {
		return seen(kernel.TakeNote(ctx, kernel.Note{
			Kind: kind, Name: name, Status: status,
			Produce: func() ([]byte, *journal.Failure) { return l.data(2), nil },
		}))
	}
	switch l.verb {
	case "value":
		return note(journal.ValueRecorded, 0)
	case "attribute":
		return note(journal.AttributeSet, 0)
	case "payload":
		return note(journal.PayloadSet, 0)
	case "status":
		return note(journal.ValueRecorded, status)
	case "set":
		return "", kernel.SetVariable(ctx, name, l.data(2))
	case "get":
		data, found, err := kernel.Variable(ctx, name)
		return fmt.Sprint(found, " ", string(data)), err
	case "key":
		isNew, err := kernel.AddKey(ctx, name)
		return fmt.Sprint(isNew), err
	case "emit":
		return "", kernel.Emit(
			ctx, journal.Detail{EventDetail: journal.EventDetail{Event: name}}, nil,
		)
	case "version":
		most, _ := strconv.Atoi(l.word(2))
		v, err := kernel.Version(ctx, name, most, false)
		if err == nil && v > 0 {
			err = c.do(ctx, l.body)
		}
		return strconv.Itoa(v), err
	case "plan":
		cleanup := func(ctx context.Context) *journal.Failure {
			end, _ := kernel.EndingAs(ctx)
			c.w.note(c.of, "clean-up "+name+" of "+c.run, " begins, the end is "+end.String())
			return failureOf(c.do(ctx, l.body))
		}
		return "", kernel.Plan(ctx, kernel.Naming{Name: name}, l.says("always"), cleanup)
	case "dead-letter":
		return "", kernel.AddDeadLetter(ctx, kernel.DeadLetter{
			Step: name, Failure: &journal.Failure{Message: "boom"},
			Data: []byte("dead letter"), Again: []byte(`"again"`),
		})
	case "info":
		i, err := kernel.InfoOf(ctx)
		return fmt.Sprintf("%s, %s, %v, %v", i.Status, i.Payload, i.Attributes, i.Steps), err
	case "fail":
		return "", failed{&journal.Failure{Message: name, Class: journal.Class(l.opts["class"])}}
	case "panic":
		panic(name)
	case "end":
		return "", kernel.EndRun(ctx, status, l.data(2), nil)
	case "end-failed":
		return "", kernel.Fail(ctx, &journal.Failure{Message: name})
	case "end-cancelled":
		return "", kernel.CancelRun(ctx, name)
	case "continue-as-new":
		return "", kernel.ContinueAsNew(ctx, l.data(1))
	case "return":
		c.result = l.data(1)
		return "", errReturned
	case "block":
		return c.w.hold(context.Background(), c.run+"/"+name), nil
	}
	return "", errors.New("there is no operation " + l.verb)
}

// each waits for operations in the order in which they end.
func (c *code) each(ctx context.Context, names []string) (string, error) {
	set, err := kernel.Watch(ctx, nil)
	if err != nil {
		return "", err
	}
	defer set.Close()
	for _, name := range names {
		_ = set.Add(c.futures[name])
	}
	var order []string
	for range names {
		o, out, err := set.Next()
		for name, future := range c.futures {
			if text, _ := seen(out, err); future == o {
				order = append(order, strings.TrimSpace(name+" "+text))
			}
		}
	}
	return strings.Join(order, " then "), nil
}

func (l line) wait() kernel.Wait {
	w := kernel.Wait{Name: l.word(1), Within: l.time("within")}
	if want := l.opts["match"]; want != "" {
		w.Match = func(data []byte) bool { return string(data) == want }
	}
	return w
}

func peek(ctx context.Context, name string) (string, error) {
	messages, err := kernel.Peek(ctx, kernel.Look{Name: name})
	var all []string
	for _, m := range messages {
		all = append(all, fmt.Sprintf("%d=%s", m.Seq, m.Data))
	}
	return fmt.Sprint(all), err
}

func (c *code) step(l line) kernel.Step {
	s := kernel.Step{Name: l.word(1), Key: l.opts["key"], Work: kernel.Work{
		Announced: l.says("announced"), Tx: l.says("tx"), Timeout: l.time("timeout"),
		Phase: l.opts["phase"],
		Body: func(ctx context.Context) ([]byte, *journal.Failure) {
			data, err := c.body(ctx, l)
			return data, failureOf(err)
		},
	}}
	s.Was, s.Added = l.opts["was"], l.says("added")
	if l.opts["tries"] != "" {
		s.Next = policy(l)
	}
	return s
}

// body is the body of a step. Its line has its behaviour: takes=1s, or holds until the command
// finish; is deaf to the end of its context; records (once, sets, adds, emits); and how often it
// fails.
func (c *code) body(ctx context.Context, l line) ([]byte, error) {
	s, _ := kernel.StepOf(ctx, "script")
	n, _ := s.Attempt()
	name, attempt := c.run+"/"+s.Name(), ""
	if n > 1 {
		attempt = fmt.Sprint(", attempt ", n)
	}
	if _, lives := c.w.pass(c.of, bodies, "step "+name+" begins"+attempt); !lives {
		return nil, context.Canceled
	}
	if l.says("tx") {
		tx := &transaction{tape: c.of.tape}
		rollback := func(context.Context) error { return nil }
		if err := s.UseTx(kernel.Tx{Handle: tx, Commit: tx.end, Rollback: rollback}); err != nil {
			return nil, err
		}
	}
	if err := c.passTime(ctx, l, name); err != nil {
		return nil, err
	}
	if err := c.record(ctx, s, l, name); err != nil {
		return nil, err
	}
	switch size := l.number("size", 0); {
	case n <= l.number("fails", 0):
		class := journal.Class(l.opts["class"])
		return nil, failed{&journal.Failure{Message: "boom", Class: class, After: l.time("after")}}
	case l.says("panics"):
		panic("boom")
	case size > 0:
		return make([]byte, size), nil
	case l.opts["peeks"] != "":
		text, err := peek(ctx, l.opts["peeks"])
		return []byte(text), err
	}
	return fmt.Appendf(nil, "%s/%d", l.word(1), n), nil
}

// passTime returns when a body is to end, or the end of its context.
func (c *code) passTime(ctx context.Context, l line, name string) error {
	own := ctx
	if l.says("deaf") {
		own = context.WithoutCancel(ctx)
	}
	if l.says("holds") {
		if how := c.w.hold(own, name); how != "" {
			return errors.New(how)
		}
	} else if takes := l.time("takes"); takes > 0 {
		select {
		case <-time.After(takes):
		case <-own.Done():
		case <-c.w.over:
		}
	}
	if own.Err() != nil {
		c.w.note(c.of, "step "+name, " hears: "+context.Cause(ctx).Error())
	}
	return own.Err()
}

// record carries out the records of a body.
func (c *code) record(ctx context.Context, s kernel.StepInfo, l line, name string) (err error) {
	if key := l.opts["once"]; key != "" {
		_, err = s.Once(key, func() ([]byte, error) {
			c.w.note(c.of, "step "+name, " makes "+key)
			return []byte(key), nil
		})
	}
	if v := l.opts["sets"]; v != "" {
		err = errors.Join(err, kernel.SetVariable(ctx, v, []byte(s.Name())))
	}
	if key := l.opts["adds"]; key != "" {
		isNew, failed := kernel.AddKey(ctx, key)
		c.w.note(c.of, "step "+name, fmt.Sprint(" adds ", key, ", new: ", isNew))
		err = errors.Join(err, failed)
	}
	if event := l.opts["emits"]; event != "" {
		key := []byte(s.IdempotencyKey())
		err = errors.Join(
			err,
			kernel.Emit(ctx, journal.Detail{EventDetail: journal.EventDetail{Event: event}}, key),
		)
	}
	if l.opts["starts"] != "" {
		_, err = c.of.Start(ctx, kernel.Start{Workflow: l.opts["starts"]})
	}
	return err
}

// hold waits until the command finish, and returns the word of that command.
func (w *world) hold(ctx context.Context, name string) string {
	end := make(chan string, 1)
	w.mu.Lock()
	w.held[name] = end
	w.mu.Unlock()
	select {
	case how := <-end:
		return how
	case <-ctx.Done():
	case <-w.over:
	}
	return ""
}
