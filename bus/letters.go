package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/journal"
)

// A Letters keeps dead letters of consumers in the store of an engine, beside those of runs:
// package admin and the command line list them. Its method Keep is the DeadLetter of a [Consumer].
type Letters struct{ Admin *admin.Client }

// A content is the input of a letter in the store.
type content struct {
	Topic string       `json:"topic"`
	Group string       `json:"group"`
	Tries int          `json:"tries"`
	Event *event.Event `json:"event,omitempty"`
	Raw   []byte       `json:"raw,omitempty"` // of a message that is no event
	// Size is that of the data, or of Raw, if the store takes nothing so large: then it is not
	// there.
	Size int `json:"size,omitempty"`
}

// Prefix begins the workflow of a letter in the store; the group follows.
const Prefix = "bus."

// Keep keeps a letter. It is durable when Keep returns. A letter of the same topic, group and event
// that is still open is replaced.
func (s Letters) Keep(ctx context.Context, l Letter) error {
	c := content{Topic: l.Topic, Group: l.Group, Tries: l.Tries, Raw: l.Raw}
	id := "" // each message that is no event has its own letter
	if l.Event.Check() == nil {
		c.Event, id = &l.Event, l.Event.Key()
	}
	err := s.add(ctx, id, l, c)
	if journal.CodeOf(err) != journal.CodeTooLarge {
		return err
	}
	c.Size, c.Raw = len(l.Event.Data)+len(l.Raw), nil
	if c.Event != nil {
		small := l.Event
		small.Data = nil
		c.Event = &small
	}
	return s.add(ctx, id, l, c)
}

func (s Letters) add(ctx context.Context, id string, l Letter, c content) error {
	input, err := json.Marshal(c)
	if err != nil {
		return err
	}
	kind := fmt.Sprintf("%T", l.Err)
	_, err = s.Admin.AddDeadLetter(ctx, deadletter.Letter{
		Workflow: name(Prefix + l.Group), WorkflowID: id, Step: name(l.Topic),
		Error: or(guard.Text(l.Err), kind), Type: kind, Input: input,
	})
	return err
}

// name returns a text as a name: with a hyphen for each character that names do not have.
func name(s string) string {
	s = strings.Map(func(r rune) rune {
		if journal.ValidName(string(r)) {
			return r
		}
		return '-'
	}, s)
	return s[:min(len(s), journal.MaxName)]
}

// Replay has handle handle the event of a letter again, by the letter's ID. If that works, the
// letter is marked as handled; else it stays as it is, and Replay returns the error.
func (s Letters) Replay(ctx context.Context, id string,
	handle func(context.Context, event.Event) error) error {
	l, err := s.Admin.DeadLetter(ctx, id)
	if err != nil {
		return err
	}
	var c content
	if err := json.Unmarshal(l.Input, &c); err != nil || !strings.HasPrefix(l.Workflow, Prefix) {
		return fmt.Errorf("bus: letter %s is not of a consumer", id)
	}
	if c.Size > 0 {
		return Reject(fmt.Errorf("bus: letter %s has no data: it was too large, with %d bytes", id,
			c.Size))
	}
	if c.Event == nil {
		return Reject(errors.New("bus: letter " + id + " has a message that is no event"))
	}
	if err := guard.Call(func() error { return handle(ctx, *c.Event) }); err != nil {
		return fmt.Errorf("bus: replay of letter %s: %w", id, err)
	}
	return s.Admin.MarkHandled(ctx, id, "replayed")
}
