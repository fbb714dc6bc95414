package approval

import (
	"context"

	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/reply"
	"github.com/perdure/perdure/internal/sealed"
)

// SendRaw sends a decision with any payload, as Decide would.
func SendRaw(ctx context.Context, c *sealed.Client, id, key string, data []byte) error {
	_, err := reply.Send(ctx, c, reply.Message{ID: id, Name: name(key), Data: data})
	return err
}

// Smuggle sends a decision as a plain signal, as an older version would.
func Smuggle(ctx context.Context, c *sealed.Client, id, key string, data []byte) {
	_, err := c.FrontEnd.Signal(ctx, kernel.Signal{
		ID: id, Name: name(key), Data: data, Message: "key/smuggled",
	})
	if err != nil {
		panic(err)
	}
}
