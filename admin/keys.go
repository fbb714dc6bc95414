package admin

import (
	"context"
	"slices"
	"time"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/token"
	"github.com/perdure/perdure/journal"
)

// A Key is a key of the database, by which tokens are signed: those of callbacks and of decisions.
// Its secret is shown nowhere.
type Key struct {
	ID    string
	Signs bool // it is the newest: the others only verify
	Made  time.Time
	Note  Note
}

// Keys returns the keys by which tokens are signed, the oldest first. There are none before the
// first token.
func (a *Client) Keys(ctx context.Context) ([]Key, error) {
	keys, err := token.Load(ctx, a.client.FrontEnd)
	var out []Key
	for i, k := range keys {
		out = append(out, Key{
			ID: k.ID(), Signs: i == len(keys)-1, Made: k.Made(), Note: Note{k.By(), k.Reason()},
		})
	}
	return out, err
}

// RotateKey makes a key that signs from then on. Tokens that others have signed stay good until
// their key is revoked.
func (a *Client) RotateKey(ctx context.Context, by Note) error {
	if err := a.mayChangeKeys(ctx, "rotate key", by); err != nil {
		return err
	}
	return token.Rotate(ctx, a.client.FrontEnd, by.By, by.Reason)
}

// RevokeKey removes a key: the tokens that it has signed are of no use then. If it is the only one,
// the next token makes another.
func (a *Client) RevokeKey(ctx context.Context, id string, by Note) error {
	op := "revoke key " + id
	if err := a.mayChangeKeys(ctx, op, by); err != nil {
		return err
	}
	keys, err := a.Keys(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(keys, func(k Key) bool { return k.ID == id }) {
		return &journal.Error{
			Code: journal.CodeNotFound, Op: op, Message: "no key has this ID",
			Hint: "perdure keys list shows the keys",
		}
	}
	return token.Revoke(ctx, a.client.FrontEnd, id, by.By, by.Reason)
}

func (a *Client) mayChangeKeys(ctx context.Context, op string, by Note) error {
	if err := a.client.Outside(ctx, op); err != nil {
		return err
	}
	return failure.Within(op, by.Validate())
}
