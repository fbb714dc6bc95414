package barrier

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
)

// A delivery is one execution of a step that writes to the database: a try, a confirm, a cancel, a
// plain step or an undo. Its subject is what is tried, confirmed and cancelled, or done and undone.
//
// A subject has three slots in the table, each for one row, which is inserted before the function
// runs and never changes its owner. The first slot is for the beginning: the try takes it, or the
// cancel if no try has. So they cannot both be first, and the one that comes second knows it, even
// if the first one is not committed yet: the key is unique, and the database makes the second
// insert wait. The second slot is for the end: the confirm takes it or the cancel. The third slot
// is for a cancel after a confirm. A delivery that finds itself in its slot is a duplicate, and the
// row has the result.
//
//	try      takes the first slot, or finds a try: duplicate; a cancel: hanging
//	cancel   takes the first slot: empty; or finds a cancel: empty too; or a try:
//	         then it takes the second slot, or finds a cancel: duplicate; a confirm:
//	         then it takes the third slot, or finds a cancel: duplicate
//	confirm  takes the second slot, or finds a confirm: duplicate; a cancel: refused;
//	         then it looks into the first: it must have a try
//
// Each delivery begins with an insert and not with a select. On SQLite, a transaction that has read
// first may not be allowed to write any more. On PostgreSQL, a select would not wait.
type delivery struct {
	name              string // of the step, for messages
	run, of           string // the subject
	phase             perdure.Phase
	first, last, back string // the slots
}

// maxOf limits the part of the key that has the subject: an index of PostgreSQL takes about 2,700
// bytes.
const maxOf = 255

// deliveryOf returns the delivery that the step of ctx makes.
func deliveryOf(ctx context.Context) (delivery, error) {
	info, ok := perdure.StepOf(ctx)
	if !ok {
		return delivery{}, &perdure.Error{
			Code: "misuse", Op: "barrier", Message: "called outside the body of a step",
			Hint: "pass the context of the step's function",
		}
	}
	d := delivery{
		name: info.Step, run: string(info.Keys), of: info.Of, phase: info.Phase, first: "try",
		last: "end", back: "back",
	}
	if d.phase == "" || d.phase == perdure.PhaseUndo {
		d.first, d.last = "step", "undo"
	}
	if len(d.of) > maxOf {
		sum := sha256.Sum256([]byte(d.of))
		d.of = "#" + hex.EncodeToString(sum[:])
	}
	return d, nil
}

// A place is a slot that a delivery has found taken, or has taken.
type place struct {
	slot      string
	phase     perdure.Phase // the phase that has the slot
	mine      bool          // this delivery has taken it: its function must run
	empty     bool          // there is nothing to do, and no result
	confirmed bool          // a confirm of the subject has taken effect
	result    []byte        // the result in the row, if the slot is not mine
}

// enter takes the slot of the delivery, and decides whether the function must run.
func (d delivery) enter(ctx context.Context, tx *sql.Tx) (place, error) {
	switch d.phase {
	case perdure.PhaseConfirm:
		return d.confirm(ctx, tx)
	case perdure.PhaseCancel, perdure.PhaseUndo:
		return d.cancel(ctx, tx)
	}
	p, err := d.take(ctx, tx, d.first, nil)
	if err == nil && p.phase != d.phase {
		err = d.refused(ErrCancelled)
	}
	return p, err
}

func (d delivery) cancel(ctx context.Context, tx *sql.Tx) (place, error) {
	p, err := d.take(ctx, tx, d.first, []byte{})
	if err != nil {
		return p, err
	}
	if p.phase == d.phase {
		return place{empty: true}, nil
	}
	p, err = d.take(ctx, tx, d.last, nil)
	if err == nil && p.phase != d.phase {
		p, err = d.take(ctx, tx, d.back, nil)
		p.confirmed = true
	}
	return p, err
}

func (d delivery) confirm(ctx context.Context, tx *sql.Tx) (place, error) {
	p, err := d.take(ctx, tx, d.last, nil)
	if err == nil && p.phase != d.phase {
		err = d.refused(ErrCancelled)
	}
	if err != nil || !p.mine {
		return p, err
	}
	begun, err := d.look(ctx, tx, d.first)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		err = d.refused(ErrNotTried)
	case err == nil && begun.phase != perdure.PhaseTry:
		err = d.refused(ErrCancelled)
	}
	return p, err
}

// take takes a slot, with a result if that is known, or finds the delivery that has it.
func (d delivery) take(ctx context.Context, tx *sql.Tx, slot string, result []byte) (place, error) {
	done, err := tx.ExecContext(ctx, insertRow, d.run, d.of, slot, string(d.phase), result,
		time.Now().UnixMilli())
	if err != nil {
		return place{}, d.failed("take its slot", err)
	}
	n, err := done.RowsAffected()
	if err != nil {
		return place{}, d.failed("take its slot", err)
	}
	if n == 1 {
		return place{slot: slot, phase: d.phase, mine: true}, nil
	}
	return d.look(ctx, tx, slot)
}

// look finds the delivery that has a slot; if none has, the error is [sql.ErrNoRows].
func (d delivery) look(ctx context.Context, tx *sql.Tx, slot string) (place, error) {
	p := place{slot: slot}
	var result sql.Null[[]byte]
	if err := tx.QueryRowContext(ctx, selectRow, d.run, d.of, slot).
		Scan(&p.phase, &result); err != nil {
		return p, d.failed("look for an earlier one", err)
	}
	if !result.Valid {
		return p, perdure.Permanent(&perdure.Error{
			Code: "misuse", Op: "barrier " + d.name,
			Message: "an earlier execution failed, and its row is in the table all the same",
			Hint: "roll the transaction back after an error, and do not call Do in its own " +
				"function",
		})
	}
	p.result = result.V
	return p, nil
}

// record writes the result into the row of a slot.
func (d delivery) record(ctx context.Context, tx *sql.Tx, slot string, result []byte) error {
	if _, err := tx.ExecContext(ctx, updateResult, result, d.run, d.of, slot); err != nil {
		return d.failed("record the result", err)
	}
	return nil
}

func (d delivery) failed(what string, err error) error {
	return fmt.Errorf("barrier %s: %s: %w", d.name, what, err)
}
