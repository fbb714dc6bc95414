package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/perdure/perdure"
)

// errRefused says that the world will not do what it was asked for, however
// often. Its name in journals lets errors.Is find it there after a crash too.
var errRefused = errors.New("refused")

func init() {
	if err := perdure.RegisterError("demo.refused", errRefused); err != nil {
		panic(err)
	}
}

// patience is how often the workflows ask the world.
var patience = perdure.Retry{Attempts: 5, First: 50 * time.Millisecond}

// A client calls the outside world on behalf of a worker.
type client struct {
	web http.Client
	url string
	pid int
}

func newClient(address string) *client {
	return &client{url: "http://" + address + callPath, pid: os.Getpid()}
}

// Reserve takes goods out of stock.
func (c *client) Reserve(ctx context.Context, key string, quantity int64) (string, error) {
	return call[string](ctx, c, Reserve, Call{Key: key, Amount: quantity})
}

// Charge takes the money.
func (c *client) Charge(ctx context.Context, key string, cents int64) (string, error) {
	return call[string](ctx, c, Charge, Call{Key: key, Amount: cents})
}

// Ship sends the goods.
func (c *client) Ship(ctx context.Context, key string) (string, error) {
	return call[string](ctx, c, Ship, Call{Key: key})
}

// Refund gives the money back.
func (c *client) Refund(ctx context.Context, key string, cents int64) (string, error) {
	return call[string](ctx, c, Refund, Call{Key: key, Amount: cents})
}

// Release puts the goods back.
func (c *client) Release(ctx context.Context, key string, quantity int64) (string, error) {
	return call[string](ctx, c, Release, Call{Key: key, Amount: quantity})
}

// Hold sets money of an account aside.
func (c *client) Hold(ctx context.Context, key, account string, cents int64) (string, error) {
	return call[string](ctx, c, Hold, Call{Key: key, Account: account, Amount: cents})
}

// Announce asks an account to take money.
func (c *client) Announce(ctx context.Context, key, account string, cents int64) (string, error) {
	return call[string](ctx, c, Announce, Call{Key: key, Account: account, Amount: cents})
}

// Take takes money that was set aside.
func (c *client) Take(ctx context.Context, key, account string, cents int64) (string, error) {
	return call[string](ctx, c, Take, Call{Key: key, Account: account, Amount: cents})
}

// Give puts money into an account.
func (c *client) Give(ctx context.Context, key, account string, cents int64) (string, error) {
	return call[string](ctx, c, Give, Call{Key: key, Account: account, Amount: cents})
}

// GiveBack puts money into the account that it came from.
func (c *client) GiveBack(ctx context.Context, key, account string, cents int64) (string, error) {
	return call[string](ctx, c, GiveBack, Call{Key: key, Account: account, Amount: cents})
}

// Mail sends a mail.
func (c *client) Mail(ctx context.Context, key, to, text string) (string, error) {
	return call[string](ctx, c, Mail, Call{Key: key, Target: Target{Of: to}, Text: text})
}

// Print prints the label of a parcel.
func (c *client) Print(ctx context.Context, key, parcel string) (string, error) {
	return call[string](ctx, c, Print, Call{Key: key, Target: Target{Of: parcel}})
}

// Bill has a subscriber pay for a month.
func (c *client) Bill(ctx context.Context, key, month string, cents int64) (string, error) {
	return call[string](ctx, c, Bill, Call{Key: key, Target: Target{Of: month}, Amount: cents})
}

// Ask asks the model what to do next, given what is known.
func (c *client) Ask(ctx context.Context, key, turn string, notes []string) (Reply, error) {
	return call[Reply](ctx, c, Ask, Call{Key: key, Target: Target{Of: turn}, Text: strings.Join(notes, "\n")})
}

// Use uses a tool.
func (c *client) Use(ctx context.Context, key, turn, tool, argument string) (string, error) {
	return call[string](ctx, c, Action(tool), Call{Key: key, Target: Target{Of: turn}, Text: argument})
}

// call asks for one effect and gives the world's answer. It is called in the body
// of a step.
func call[T any](ctx context.Context, c *client, do Action, l Call) (T, error) {
	var value T
	run, err := perdure.InfoOf(ctx)
	if err != nil {
		return value, err
	}
	if l.Attempt, _, err = perdure.Attempt(ctx); err != nil {
		return value, err
	}
	l.Run, l.Action, l.Worker = run.WorkflowID, do, c.pid
	a, err := c.post(ctx, l)
	switch {
	case err != nil:
		return value, fmt.Errorf("%s: %w", do, err)
	case a.Refused != "":
		return value, perdure.Permanent(fmt.Errorf("%s %w: %s", do, errRefused, a.Refused))
	}
	return value, json.Unmarshal(a.Value, &value)
}

// post sends a call and reads the answer.
func (c *client) post(ctx context.Context, l Call) (answer, error) {
	var a answer
	body, err := json.Marshal(l)
	if err != nil {
		return a, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	resp, err := c.web.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil || a.Error != "" {
		return a, fmt.Errorf("the world answered %s: %s: %w", resp.Status, a.Error, err)
	}
	return a, nil
}
