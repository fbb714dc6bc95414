package bus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
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
	own, err := begin(ctx, key)
	if err != nil {
		return zero, err
	}
	name := fmt.Sprint(key, ".", own)
	v, err := perdure.NewSignal[T](name).Wait(ctx, opts...)
	if over := end(ctx, key, name); err == nil {
		err = over
	}
	return v, err
}

// A waiting is the variable by which the waits of a run for one value know of each other. All of
// them have one search attribute, which is there while one is open.
type waiting struct{ Open, Last int }

// begin adds a wait, and returns its number.
func begin(ctx context.Context, key string) (int, error) {
	w, _, err := perdure.Variable[waiting](ctx, key)
	if err != nil {
		return 0, err
	}
	if w.Open == 0 {
		if err := perdure.SetAttribute(ctx, key, "1"); err != nil {
			return 0, err
		}
	}
	w.Open, w.Last = w.Open+1, w.Last+1
	return w.Last, perdure.SetVariable(ctx, key, w)
}

// end removes a wait, with the events that came to it and that it did not want.
func end(ctx context.Context, key, name string) error {
	left, err := perdure.Inbox(ctx, name)
	if err != nil {
		return err
	}
	var unwanted []int64
	for _, m := range left {
		unwanted = append(unwanted, m.Number)
	}
	if len(unwanted) > 0 {
		if _, err := perdure.Take(ctx, unwanted...); err != nil {
			return err
		}
	}
	w, _, err := perdure.Variable[waiting](ctx, key)
	if err != nil {
		return err
	}
	if w.Open--; w.Open == 0 {
		if err := perdure.SetAttribute(ctx, key, ""); err != nil {
			return err
		}
	}
	return perdure.SetVariable(ctx, key, w)
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
	var all []error // one run in the way of others is none
	for {
		page, next, err := c.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page {
			if err := wakeRun(ctx, c, e, string(page[i].ID), key+"."); err != nil {
				all = append(all, err)
			}
		}
		if len(page) < q.Limit {
			return errors.Join(all...)
		}
		q.After = next
	}
}

// wakeRun sends an event to each open wait of a run for signals whose names begin so.
func wakeRun(ctx context.Context, c *perdure.Client, e *event.Event, run, prefix string) error {
	d, err := c.Describe(ctx, run)
	if journal.CodeOf(err) == journal.CodeNotFound {
		return nil // it is kept no longer
	}
	if err != nil {
		return fmt.Errorf("run %s: %w", run, err)
	}
	for _, w := range d.State.Waits { // those with unread messages, too
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
