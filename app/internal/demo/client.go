package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"

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

// A client calls the outside world on behalf of a worker.
type client struct {
	url string
	pid int
}

func newClient(address string) *client {
	return &client{url: "http://" + address + callPath, pid: os.Getpid()}
}

// Reserve takes the goods out of stock.
func (c *client) Reserve(ctx context.Context, key string, o Order) (string, error) {
	return c.call(ctx, Reserve, key, o)
}

// Charge takes the money.
func (c *client) Charge(ctx context.Context, key string, o Order) (string, error) {
	return c.call(ctx, Charge, key, o)
}

// Ship sends the goods.
func (c *client) Ship(ctx context.Context, key string, o Order) (string, error) {
	return c.call(ctx, Ship, key, o)
}

// Refund gives the money back.
func (c *client) Refund(ctx context.Context, key string, o Order) (string, error) {
	return c.call(ctx, Refund, key, o)
}

// Release puts the goods back.
func (c *client) Release(ctx context.Context, key string, o Order) (string, error) {
	return c.call(ctx, Release, key, o)
}

// call asks for one effect and gives the world's reference for it. It is called
// in the body of a step.
func (c *client) call(ctx context.Context, do Action, key string, o Order) (string, error) {
	attempt, _, err := perdure.Attempt(ctx)
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(Call{
		Action: do, Order: o.ID, Key: key, Attempt: attempt, Worker: c.pid,
		Quantity: o.Quantity, Cents: o.Cents,
	})
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var a answer
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		return "", fmt.Errorf("%s: the world answered %s: %w", do, resp.Status, err)
	}
	switch {
	case a.Refused != "":
		return "", perdure.Permanent(fmt.Errorf("%s %w: %s", do, errRefused, a.Refused))
	case a.Reference == "":
		return "", fmt.Errorf("%s: the world answered %s", do, resp.Status)
	}
	return a.Reference, nil
}
