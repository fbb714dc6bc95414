package bus

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/journal"
)

// Wait waits for an event from the bus: of a type, and with a value in a field of its data. It
// returns the data of the event. The gateway must have the type and the field ([Gateway.Wake]). An
// event wakes every wait that is open when it arrives, of whichever run. An event that arrived
// before is missed; a signal ([perdure.Signal]) would be kept. A broker delivers at least once: an
// event that comes again wakes no wait twice, but may wake one that has opened in between.
//
// opts are those of a signal's wait: a limit of time, and a condition of the data.
func Wait[T any](ctx context.Context, kind, field, value string, opts ...perdure.WaitOption) (T,
	error) {
	var zero T
	key := awaited(kind, field, value)
	if err := perdure.SetAttribute(ctx, key, "1"); err != nil {
		return zero, err
	}
	own, err := perdure.SideEffect(ctx, "wait", func() (string, error) {
		return rand.Text(), nil
	})
	if err != nil {
		return zero, err
	}
	return perdure.NewSignal[T](key+"."+own).Wait(ctx, opts...)
}

// awaited returns the search attribute of the runs that have waited for a value, and the beginning
// of the names of the signals that wake them.
func awaited(kind, field, value string) string {
	sum := sha256.Sum256([]byte(strconv.Quote(kind) + strconv.Quote(field) + strconv.Quote(value)))
	return "event." + hex.EncodeToString(sum[:16])
}

// wake sends an event to each wait for a value that is open.
func wake(ctx context.Context, c *perdure.Client, e *event.Event, field, value string) error {
	key := awaited(e.Type, field, value)
	q := perdure.Query{Open: true, Attributes: map[string]string{key: "1"}, Limit: 1000}
	for {
		page, next, err := c.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page {
			if err := wakeRun(ctx, c, e, string(page[i].ID), key+"."); err != nil {
				return err
			}
		}
		if len(page) < q.Limit {
			return nil
		}
		q.After = next
	}
}

// wakeRun sends an event to each open wait of a run for signals whose names begin so.
func wakeRun(ctx context.Context, c *perdure.Client, e *event.Event, run, prefix string) error {
	d, err := c.Describe(ctx, run)
	if err != nil {
		return fmt.Errorf("run %s: %w", run, err)
	}
	for _, w := range d.Waits {
		own, is := strings.CutPrefix(w.Op.Name, prefix)
		if w.Kind != journal.WaitSignal || !is {
			continue
		}
		key := perdure.SendKey(e.Key() + "." + own) // each wait gets it once
		if _, err := c.Send(ctx, run, w.Op.Name, e.Data, key); err != nil {
			return fmt.Errorf("run %s: %w", run, err)
		}
	}
	return nil
}
