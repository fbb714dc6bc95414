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

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/examples/agent/assistant"
	"github.com/perdure/perdure/examples/approval/expense"
	"github.com/perdure/perdure/examples/orders/order"
	"github.com/perdure/perdure/examples/pipeline/daily"
	"github.com/perdure/perdure/examples/subscription/billing"
	"github.com/perdure/perdure/examples/transfer/money"
)

// errRefused is the error of a call that the world refuses for good. Its name in journals
// lets errors.Is find it there after a crash too.
var errRefused = errors.New("refused")

func init() {
	if err := perdure.RegisterError("demo.refused", errRefused); err != nil {
		panic(err)
	}
}

// workflows returns the workflows of the examples, with the outside world of the demo.
func workflows(c *client) []perdure.Definition {
	agent, _, research := assistant.New(c)
	return []perdure.Definition{
		order.Fulfil(c.shop), money.Move(c.bank), expense.Approve(c), daily.Report(c), agent,
		research,
		billing.Subscribe(c.charge),
	}
}

// A client calls the outside world on behalf of a worker. Its methods are called in the
// bodies of steps.
type client struct {
	web http.Client
	url string
	pid int
}

func newClient(address string) *client {
	return &client{url: "http://" + address + callPath, pid: os.Getpid()}
}

func (c *client) shop(ctx context.Context, _, action string, o order.Order) (string, error) {
	amount := int64(o.Cents)
	if action == "reserve" || action == "release" {
		amount = 1
	}
	return call[string](ctx, c, Call{Amount: amount, Text: o.Country})
}

func (c *client) charge(ctx context.Context, _ string, s billing.Subscription) (bool, error) {
	_, err := call[string](ctx, c, Call{Text: s.Plan})
	return err == nil, err
}

func (c *client) bank(ctx context.Context, _ money.Action, account string, cents int64) error {
	_, err := call[string](ctx, c, Call{Account: account, Amount: cents})
	return err
}

// Mail sends a mail.
func (c *client) Mail(ctx context.Context, _, to, text string) error {
	_, err := call[string](ctx, c, Call{Text: to + ": " + text})
	return err
}

// Pay pays an expense.
func (c *client) Pay(ctx context.Context, _ string, e expense.Expense) error {
	_, err := call[string](ctx, c, Call{Amount: int64(e.Cents), Text: e.By})
	return err
}

// Read reads a file of the archive.
func (c *client) Read(ctx context.Context, name, day string) (daily.Units, error) {
	return call[daily.Units](ctx, c, Call{Text: name + " " + day})
}

// Write keeps a report.
func (c *client) Write(ctx context.Context, day string, left daily.Units) error {
	_, err := call[string](ctx, c, Call{Text: fmt.Sprint(day, " ", left)})
	return err
}

// Think calls the model.
func (c *client) Think(ctx context.Context, _ string, talk []string, _ int) (assistant.Reply,
	error) {
	return call[assistant.Reply](ctx, c, Call{Text: strings.Join(talk, "\n")})
}

// Use calls a tool.
func (c *client) Use(ctx context.Context, _, _, text string) (string, error) {
	return call[string](ctx, c, Call{Text: text})
}

// call calls the world, and returns its answer. The step of ctx is the target.
func call[T any](ctx context.Context, c *client, l Call) (T, error) {
	var value T
	step, _ := perdure.StepOf(ctx)
	l.Target, l.Attempt = Target{Run: step.Run.WorkflowID, Step: step.Step}, step.Attempt
	l.Key, l.Worker = perdure.IdempotencyKey(ctx), c.pid
	a, err := c.post(ctx, l)
	if err != nil {
		return value, err
	}
	if a.Refused != "" {
		return value, perdure.Permanent(fmt.Errorf("%w: %s", errRefused, a.Refused))
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
	err = json.NewDecoder(resp.Body).Decode(&a)
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if err != nil {
		return a, fmt.Errorf("the outside world answered %s: %w", resp.Status, err)
	}
	return a, nil
}
