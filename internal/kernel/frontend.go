package kernel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A FrontEnd takes requests of clients about runs, wherever these are: reads and messages. An
// engine has one; its messages become durable with its group commits. A Client has one, too; it
// writes to the store by itself.
type FrontEnd struct {
	clock
	store   store.Store
	db      atomic.Pointer[string] // the identity of the database; nil before an engine has joined
	build   string
	keep    time.Duration // how long an unrouted signal is kept
	writers writers

	maxPayload, spillOver int
	numbers               *clientNumbers // for runs and spilled payloads that no engine makes
	trace                 tracing
}

// newFrontEnd returns a front end without writers and numbers.
func newFrontEnd(s store.Store, cfg *Config) FrontEnd {
	return FrontEnd{
		clock: clock{cfg.Clock}, store: s, build: cfg.Build, keep: cfg.KeepPosts,
		maxPayload: cfg.MaxPayload, spillOver: cfg.SpillOver, trace: tracing{cfg.Trace},
	}
}

// Writers return the writer that is able to write now.
type writers interface {
	// open waits until there is a writer: an engine has to join first.
	open(ctx context.Context, op string) (writer, error)
}

// database returns the identity of the database, and the empty string before an engine has joined.
func (d *FrontEnd) database() string {
	if db := d.db.Load(); db != nil {
		return *db
	}
	return ""
}

// A writer writes the changes that a front end makes.
type writer interface {
	// submit makes changes durable in one transaction and returns them with their verdicts. It
	// returns errLost if it has done nothing because it has lost its lease meanwhile.
	submit(ctx context.Context, op string, cs []store.Change) ([]store.Change, error)
	// number returns a number that no run or payload has.
	number() (journal.Number, error)
	// spill prepares a payload that is too large for its row, and returns the number of the spilled
	// payload; 0 if the payload fits. If the payload has been made durable already, spill sets data
	// to nil.
	spill(what string, data *[]byte) (journal.Number, *journal.Failure)
}

// write calls f with a writer. If that writer has done nothing because it has lost its lease, write
// calls f again with another one. It refuses a ctx that has ended.
func (d *FrontEnd) write(ctx context.Context, op string, f func(writer) error) error {
	if err := notBegun(ctx, op); err != nil { // otherwise chance would decide
		return err
	}
	for {
		o, err := d.writers.open(ctx, op)
		if err != nil {
			return err
		}
		if err = f(o); !errors.Is(err, errLost) {
			return err
		}
	}
}

// Find returns the head of a run by its run ID or its workflow ID. By workflow ID it returns the
// open run, or else the newest.
func (d *FrontEnd) Find(ctx context.Context, id string) (journal.Head, error) {
	op := "find " + id
	if !journal.ValidWorkflowID(id) {
		return journal.Head{}, invalidID(op, id)
	}
	for _, f := range []store.Filter{{Run: journal.RunID(id), Limit: 1}, {
		WorkflowIDs: []string{id}, Newest: true, Limit: 1,
	}} {
		heads, _, err := d.store.Find(ctx, f)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return journal.Head{}, unavailable(op, err)
		}
		if len(heads) > 0 {
			return heads[0], nil
		}
	}
	e := &journal.Error{
		Code: journal.CodeNotFound, Op: op, Message: "no run has this run ID or workflow ID",
	}
	if _, ok := journal.RunID(id).Number(d.database()); ok {
		e.Message, e.Hint = "the run is not here any more", "it was removed when its retention "+
			"was over, or was never started"
	}
	return journal.Head{}, e
}

func invalidID(op, id string) error {
	return &journal.Error{
		Code: journal.CodeInvalid, Op: op, Message: quote(id) + " is not valid",
		Hint: "IDs are 1 to 255 bytes without spaces, names 1 to 255 of A-Z a-z 0-9 . _ : -",
	}
}

// History returns entries of a run's journal, beginning with a sequence, with spilled payloads.
// Limit 0 means all.
func (d *FrontEnd) History(
	ctx context.Context, id string, from int64, limit int,
) (journal.Head, []journal.Entry, error) {
	head, err := d.Find(ctx, id)
	if err != nil {
		return journal.Head{}, nil, err
	}
	entries, err := d.load(ctx, "history "+id, head, store.Range{
		From: from, Limit: limit, Payloads: true,
	})
	return head, entries, err
}

// Read returns entries of a journal without spilled payloads. Of a damaged journal it returns the
// entries before the damage, with an error of code corrupt.
func (d *FrontEnd) Read(
	ctx context.Context, h journal.Head, r store.Range,
) ([]journal.Entry, error) {
	return d.load(ctx, "read "+string(h.ID), h, r)
}

func (d *FrontEnd) load(
	ctx context.Context, op string, h journal.Head, r store.Range,
) ([]journal.Entry, error) {
	entries, err := d.store.Load(ctx, h.Number, r)
	if err == nil {
		return entries, nil
	}
	if err = unavailable(op, err); journal.CodeOf(err) != journal.CodeCorrupt {
		entries = nil
	}
	return entries, err
}

// Info returns the kind of the store and its engines, without figures that have to be counted.
func (d *FrontEnd) Info(ctx context.Context) (store.Info, error) {
	info, err := store.Brief(ctx, d.store)
	if err != nil {
		return store.Info{}, unavailable("info", err)
	}
	return info, nil
}

// Counts returns the description of the store with its figures, which it may have to count.
func Counts(ctx context.Context, d *FrontEnd) (store.Info, error) {
	info, err := d.store.Info(ctx)
	if err != nil {
		return store.Info{}, unavailable("info", err)
	}
	return info, nil
}

// Heads returns heads by filter, newest first, and the cursor that goes on after them.
func (d *FrontEnd) Heads(
	ctx context.Context, f store.Filter,
) ([]journal.Head, journal.Cursor, error) {
	heads, next, err := d.store.Find(ctx, f)
	if err != nil {
		return nil, journal.Cursor{}, unavailable("find", err)
	}
	return heads, next, nil
}

// Stand returns the heads for a list of run IDs or workflow IDs, in their order; a zero head if no
// run is found. It asks the store twice, however many IDs there are.
func (d *FrontEnd) Stand(ctx context.Context, ids []string) ([]journal.Head, error) {
	if len(ids) > store.MaxLimit {
		return nil, &journal.Error{
			Code: journal.CodeTooLarge, Op: "find", Message: "too many IDs at a time: at most 1000",
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	found := map[string]journal.Head{}
	byID, _, err := d.Heads(ctx, store.Filter{
		WorkflowIDs: ids, Newest: true, Limit: store.MaxLimit,
	})
	if err != nil {
		return nil, err
	}
	for _, h := range byID {
		found[h.WorkflowID] = h
	}
	var runs []journal.RunID
	for _, id := range ids {
		if _, ok := journal.RunID(id).Number(d.database()); ok || d.database() == "" {
			runs = append(runs, journal.RunID(id))
		}
	}
	if len(runs) > 0 {
		byRun, _, err := d.Heads(ctx, store.Filter{Runs: runs, Limit: store.MaxLimit})
		if err != nil {
			return nil, err
		}
		for _, h := range byRun {
			found[string(h.ID)] = h
		}
	}
	out := make([]journal.Head, len(ids))
	for i, id := range ids {
		out[i] = found[id]
	}
	return out, nil
}

// Outcomes returns the outcomes of those of the runs that have ended. It asks the store once,
// however many runs there are.
func (d *FrontEnd) Outcomes(
	ctx context.Context, heads []journal.Head,
) (map[journal.Number]Outcome, error) {
	var ends []journal.Number
	for _, h := range heads {
		if h.Status.IsTerminal() {
			ends = append(ends, h.Number)
		}
	}
	out := map[journal.Number]Outcome{}
	if len(ends) == 0 {
		return out, nil
	}
	entries, err := d.store.Load(ctx, 0, store.Range{Ends: ends, Payloads: true})
	if err != nil {
		return nil, unavailable("read", err)
	}
	for i := range entries {
		out[entries[i].Run] = outcomeOf(&entries[i])
	}
	return out, nil
}

func outcomeOf(e *journal.Entry) Outcome {
	return Outcome{Data: e.Data, Failure: e.Failure(), Detail: e.Detail}
}

// A Signal is a message from outside to a run.
type Signal struct {
	ID   string // a run ID or a workflow ID
	Name string
	Data []byte
	// a run and its continuations get a signal of one key once; empty means a key of its own
	Key string
	// the ID of the message, instead of the one that is made of Key; for messages with a reply
	Message string
	SentIn  string // the trace context of the call; see [observe.Trace]
}

// A Delivery describes what a store did with a signal.
type Delivery struct {
	RunID     string // the run that has it; empty if there is none yet
	Number    int64  // its number in the inbox, or among the unrouted signals
	Duplicate bool   // the key was used before: nothing was done
	Unrouted  bool   // no open run has the workflow ID: the signal is kept for one
	New       bool   // this call has started the run

	NotDelivered bool           // there is no such run, or it has ended: nothing was done
	Status       journal.Status // the status of a run that has ended; else 0
}

// Signal sends a message to a run. When it returns, the message is durable: one wait takes it, or
// it counts among the messages that were not taken when the run ended. A Delivery that was not
// delivered comes without an error.
func (d *FrontEnd) Signal(ctx context.Context, s Signal) (Delivery, error) {
	op, s := "signal "+s.Name+" to "+s.ID, d.trace.signal(ctx, s)
	out, err := d.deliver(ctx, op, func(o writer) (*store.Post, error) { return d.post(o, op, s) })
	if out.NotDelivered {
		return out, nil
	}
	return out, err
}

// post makes the message of a signal. The names Cancel and CancelWorkflow are the engine's.
func (d *FrontEnd) post(o writer, op string, s Signal) (*store.Post, error) {
	switch {
	case !journal.ValidWorkflowID(s.ID):
		return nil, invalidID(op, s.ID)
	case !journal.ValidName(s.Name) || strings.HasPrefix(s.Name, ownNames):
		return nil, invalidID(op, s.Name)
	}
	if s.Name == "Cancel" || s.Name == "CancelWorkflow" {
		p, err := d.control(o, journal.CancelAsked, s.ID, "", Why{
			Reason: "signal " + s.Name, Mode: cancelMode(s.Data),
		})
		if err == nil && s.Key != "" {
			p.Message.Detail.Message = keyed(s.Key)
		}
		return p, err
	}
	spill, f := o.spill("the payload of signal "+s.Name, &s.Data)
	if f != nil {
		return nil, &journal.Error{Code: f.Code, Op: op, Message: f.Message}
	}
	p, err := d.message(
		o, s.ID,
		journal.Entry{
			Kind: journal.SignalReceived, Op: journal.Op{Name: s.Name}, Data: s.Data, Spill: spill,
		},
		s.Key,
	)
	if p != nil && s.Message != "" {
		p.Message.Detail.Message = s.Message
	}
	if p != nil {
		p.Message.Detail.SentIn = s.SentIn
	}
	if p != nil && p.WorkflowID != "" && d.keep > 0 {
		p.Until = d.Now().Add(d.keep)
	}
	return p, err
}

// cancelMode returns how a signal that cancels a run does so: with compensation, unless its payload
// has runCompensations as false.
func cancelMode(payload []byte) journal.Action {
	var p struct{ RunCompensations *bool }
	if json.Unmarshal(payload, &p) == nil && p.RunCompensations != nil && !*p.RunCompensations {
		return ""
	}
	return journal.ActionCompensate
}

// control makes a message of the engine's own.
func (d *FrontEnd) control(
	o writer, kind journal.Kind, id, about string, why Why,
) (*store.Post, error) {
	p, err := d.message(o, id, journal.Entry{
		Kind: kind, Op: journal.Op{Name: controlName, Key: about},
		Detail: why.detail(0),
	}, "")
	if p != nil {
		p.Force = true
	}
	return p, err
}

// message addresses a message. It gets an ID, so that a group that is sent again does not deliver
// it twice.
func (d *FrontEnd) message(o writer, id string, m journal.Entry, key string) (*store.Post, error) {
	if m.Detail == nil {
		m.Detail = &journal.Detail{}
	}
	m.At = d.Now()
	m.Detail.Message = keyed(key)
	if key == "" {
		n, err := o.number()
		if err != nil {
			return nil, noNumber("send to "+id, err)
		}
		m.Detail.Message = "own/" + string(journal.MakeRunID(d.database(), n))
	}
	p := &store.Post{Message: m}
	if n, ok := journal.RunID(id).Number(d.database()); ok {
		p.Run, p.Follow = n, store.FollowChain
	} else {
		p.WorkflowID = id
	}
	return p, nil
}

// noNumber returns the error for a number that a client did not get.
func noNumber(op string, err error) error {
	e := &journal.Error{Code: journal.CodeStopped, Op: op, Err: err}
	if errors.As(err, &e) {
		e.Op = op
	}
	return e
}

// keyed returns the ID of a message with an idempotency key.
func keyed(key string) string { return "key/" + key }

// deliver makes a message durable and returns its delivery.
func (d *FrontEnd) deliver(
	ctx context.Context, op string, make func(writer) (*store.Post, error),
) (out Delivery, err error) {
	err = d.write(ctx, op, func(o writer) error {
		p, err := make(o)
		if err != nil {
			return err
		}
		cs, err := o.submit(ctx, op, []store.Change{{Posts: []store.Post{*p}}})
		if err != nil {
			return err
		}
		out, err = delivered(op, &cs[0].Posts[0])
		return err
	})
	return out, err
}

// delivered returns the delivery of a message. It fails if the message was not delivered.
func delivered(op string, p *store.Post) (Delivery, error) {
	out := Delivery{RunID: string(p.To.ID), Number: p.Number}
	switch p.Verdict {
	case store.Duplicate:
		out.Duplicate = true
	case store.Unrouted:
		out.Unrouted = true
	case store.Closed:
		out.NotDelivered, out.Status = true, p.To.Status
		return out, wrongState(op, p.To, "it has ended")
	case store.Nobody:
		out.NotDelivered = true
		return out, &journal.Error{
			Code: journal.CodeNotFound, Op: op,
			Message: "no open run has this run ID or workflow ID",
		}
	}
	return out, nil
}

// SignalWithStart sends a message to the open run of a workflow ID, or to a new run that it starts,
// in one transaction.
func (d *FrontEnd) SignalWithStart(
	ctx context.Context, sig Signal, s Start,
) (out Delivery, err error) {
	op := "signal " + sig.Name + " with start of " + s.ID
	sig, s = d.trace.signal(ctx, sig), d.trace.start(ctx, s)
	sig.ID = s.ID
	err = d.write(ctx, op, func(o writer) error {
		p, err := d.post(o, op, sig)
		if err != nil {
			return err
		}
		c, err := d.start(o, op, s)
		if err != nil {
			return err
		}
		p.Until, p.Run, p.WorkflowID = time.Time{}, 0, s.ID
		c.Since, c.Posts = time.Time{}, []store.Post{*p}
		cs, err := o.submit(ctx, op, []store.Change{*c})
		if err != nil {
			return err
		}
		if cs[0].Verdict == store.Taken {
			return taken(op, s.ID, cs[0].Found)
		}
		out, err = delivered(op, &cs[0].Posts[0])
		// the run may have continued as another one before the answer came
		if cs[0].Verdict == store.Written {
			out.New, out.RunID = true, string(cs[0].Found.ID)
		}
		return err
	})
	return out, err
}

// start makes a run that any engine which knows its workflow may claim.
func (d *FrontEnd) start(o writer, op string, s Start) (*store.Change, error) {
	n, err := o.number()
	if err != nil {
		return nil, noNumber(op, err)
	}
	spill, f := o.spill("the input", &s.Input)
	if f != nil {
		return nil, &journal.Error{Code: f.Code, Op: op, Message: f.Message}
	}
	now := d.Now()
	c := &store.Change{Run: n, Create: true, Head: &journal.Head{
		Number: n, ID: journal.MakeRunID(d.database(), n), WorkflowID: s.ID, Workflow: s.Workflow,
		Pattern: s.Pattern,
		Status:  journal.Pending, Wake: now, Created: now, Chain: n, Keep: s.Dedup,
	}}
	if s.Dedup > 0 {
		c.Since = now.Add(-s.Dedup)
	}
	due := s.due(now)
	if !due.IsZero() {
		c.Head.Cause, c.Head.Wake = beginsAt(due), due
	}
	if s.ID == "" {
		c.Head.WorkflowID, c.Head.Keep, c.Since = string(c.Head.ID), 0, time.Time{}
	}
	c.Entries = []journal.Entry{{
		Run: n, Seq: 1, At: now, Kind: journal.RunStarted, Status: journal.Pending, Data: s.Input,
		Spill: spill,
		Detail: &journal.Detail{
			Due:         due,
			CodeDetail:  journal.CodeDetail{Build: d.build},
			StartDetail: journal.StartDetail{Headers: s.Headers, Attributes: s.Attributes},
		},
	}}
	return c, nil
}

func taken(op, id string, by journal.Head) error {
	return &journal.Error{
		Code: journal.CodeConflict, Op: op,
		Message: "the workflow ID " + id + " is held by run " + string(
			by.ID,
		) + " of workflow " + by.Workflow + ", which is " + by.Status.String(),
		Hint: "use an ID of its own, or wait for that run to end",
	}
}

// CancelTimer ends a timer of a run before its time, by its path. If the run has no such open timer
// when it reads the message, nothing happens.
func (d *FrontEnd) CancelTimer(ctx context.Context, id, path, reason string) error {
	op := "cancel timer " + path + " of " + id
	if strings.HasPrefix(path[strings.LastIndex(path, "/")+1:], "perdure:") {
		return &journal.Error{
			Code: journal.CodeInvalid, Op: op, Message: "it is no timer of the workflow's code",
		}
	}
	_, err := d.deliver(ctx, op, func(o writer) (*store.Post, error) {
		p, err := d.control(o, journal.TimerCancelled, id, path, Why{Reason: reason})
		if err == nil {
			p.Force = false
		}
		return p, err
	})
	return err
}

// Decide answers a run that waits for an operator. The name is a path, or a name that only one of
// the waits of the run has.
func (d *FrontEnd) Decide(ctx context.Context, id, name string, by Decided) error {
	op := "decide " + name + " of " + id
	if !journal.ValidWorkflowID(id) {
		return invalidID(op, id)
	}
	if name == "" {
		return invalidID(op, name)
	}
	err := d.decide(ctx, op, id, name, by)
	if journal.CodeOf(err) == journal.CodeWrongState { // perhaps by this very decision
		err = d.decide(ctx, op, id, name, by)
	}
	return err
}

func (d *FrontEnd) decide(ctx context.Context, op, id, name string, by Decided) error {
	head, entries, err := d.History(ctx, id, 0, 0)
	if err != nil {
		return err
	}
	asked, err := askedFor(op, head, entries, name, by)
	switch {
	case errors.Is(err, errDecided):
		return nil
	case err != nil:
		return err
	}
	_, err = d.deliver(ctx, op, func(o writer) (*store.Post, error) {
		spill, f := o.spill("the decision", &by.Data)
		if f != nil {
			return nil, &journal.Error{Code: f.Code, Op: op, Message: f.Message}
		}
		return d.message(o, string(head.ID), journal.Entry{
			Kind: journal.DecisionMade, Op: asked, Data: by.Data, Spill: spill,
			Detail: &journal.Detail{
				By: by.By, Reason: by.Reason, Choices: []string{by.Choice},
			},
		}, "")
	})
	return err
}

// Answers sends answers to callbacks.
type Answers struct{ *FrontEnd }

// Send sends an answer to a run, and to no run that continues it. The answer is an entry with the
// path of the callback as its key, and with Data, Detail.Failure or Detail.Due. A run takes one
// answer to a callback, and any number of extensions: any other one is a duplicate.
func (d Answers) Send(ctx context.Context, h journal.Head, m journal.Entry) (Delivery, error) {
	op, key := "answer "+m.Op.Key, ""
	if m.Detail == nil || m.Detail.Due.IsZero() {
		sum := sha256.Sum256([]byte(string(h.ID) + "/" + m.Op.Key))
		key = "callback/" + hex.EncodeToString(sum[:]) // no key of a signal has a slash
	}
	return d.deliver(ctx, op, func(o writer) (*store.Post, error) {
		var f *journal.Failure
		if m.Spill, f = o.spill("the answer", &m.Data); f != nil {
			return nil, &journal.Error{Code: f.Code, Op: op, Message: f.Message}
		}
		own := m
		own.Kind, own.Op.Name, own.Detail = journal.AnswerReceived, journal.CallbackName,
			&journal.Detail{Other: h.ID}
		if m.Detail != nil {
			own.Detail.Failure, own.Detail.Due = m.Detail.Failure, m.Detail.Due
		}
		p, err := d.message(o, string(h.ID), own, key)
		if p != nil {
			p.Follow = store.FollowNone
		}
		return p, err
	})
}

// Unread returns the answers to callbacks that a run has not taken, with their payloads.
func (d Answers) Unread(ctx context.Context, h journal.Head) ([]journal.Entry, error) {
	messages, err := d.store.Load(ctx, h.Number, store.Range{
		Inbox: true, Name: journal.CallbackName, Payloads: true,
	})
	if err != nil {
		return nil, unavailable("read answers", err)
	}
	return messages, nil
}

// ask sends a run a message of the engine's own.
func (d *FrontEnd) ask(
	ctx context.Context, op string, kind journal.Kind, h journal.Head, why Why,
) error {
	_, err := d.deliver(ctx, op, func(o writer) (*store.Post, error) {
		return d.control(o, kind, string(h.ID), "", why)
	})
	return err
}

// Signals returns messages without those of the engine's own.
func Signals(messages []journal.Entry) []journal.Entry {
	return slices.DeleteFunc(slices.Clone(messages), func(e journal.Entry) bool {
		return strings.HasPrefix(e.Op.Name, ownNames)
	})
}

// Unread returns messages that a run has not taken, beginning with a number, with those of the
// engine's own. Without a run it returns unrouted signals.
func (d *FrontEnd) Unread(
	ctx context.Context, id string, from int64, limit int,
) ([]journal.Entry, error) {
	var n journal.Number
	if id != "" {
		h, err := d.Find(ctx, id)
		if err != nil {
			return nil, err
		}
		n = h.Number
	}
	messages, err := d.store.Load(ctx, n, store.Range{
		Inbox: true, From: from, Limit: limit, Payloads: true,
	})
	if err != nil {
		return nil, unavailable("read messages", err)
	}
	return messages, nil
}

// Deliver moves an unrouted signal to a run.
func (d *FrontEnd) Deliver(ctx context.Context, number int64, id string) (Delivery, error) {
	op := "deliver a message to " + id
	h, err := d.Find(ctx, id)
	if err != nil {
		return Delivery{}, err
	}
	out, err := d.deliver(ctx, op, func(writer) (*store.Post, error) {
		return &store.Post{Run: h.Number, Unrouted: number}, nil
	})
	if out.NotDelivered && journal.CodeOf(err) == journal.CodeNotFound { // the run is there
		err = &journal.Error{
			Code: journal.CodeNotFound, Op: op,
			Message: "no unrouted message has the number " + strconv.FormatInt(number, 10),
			Hint:    "it was delivered or deleted, or the time is over for which it was kept",
		}
	}
	return out, err
}

func quote(s string) string {
	if len(s) > 80 {
		s = s[:80] + "…"
	}
	return strconv.Quote(s)
}

// Slots returns slots of limits and waits for them. A store that shows none has none.
func (d *FrontEnd) Slots(ctx context.Context, q store.SlotQuery) ([]store.Slot, error) {
	reader := store.AbilitiesOf(d.store).SlotReader
	if reader == nil {
		return nil, nil
	}
	slots, err := reader.Slots(ctx, q)
	if err != nil {
		return nil, unavailable("read slots", err)
	}
	return slots, nil
}
