package kernel

import (
	"errors"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Gather makes one run of several starts of a key.
//
// The first run of a key has the slot of a singleton. It waits until it is due, and then for what
// else it has to get. The runs of other starts stand in line meanwhile. When its code is to be
// called, the run reads the line, and the inputs of the runs in it. In one commit, its journal has
// the input that it begins with, the slot is free, and each of those runs has a message that this
// run continues it. The runs that it takes are the first in line, so they get the slot before one
// that came later, and give it on as they end: that one has it when they have left the line. So
// each input has one run that begins with it, whatever crashes.
//
// A child among them has to tell its parent. So it stays, and ends like the run that has its input:
// that run has a slot for that from the same commit to its end.
type Gather struct {
	// Quiet is how long no other start may come before the run begins; zero for Within alone.
	Quiet time.Duration
	// Within is the longest time between the start of the run and its begin, as far as that depends
	// on other starts; zero for no limit.
	Within time.Duration
	// Most is the number of starts at which the run begins at once, at most store.MaxLimit.
	Most int
	// Union returns the input of the run. Nil makes the last input the one that counts.
	Union func(inputs [][]byte) ([]byte, error)
}

// due returns when a run that was created at one time begins, if the last start was at another.
func (g *Gather) due(created, last time.Time) (due time.Time) {
	if g.Quiet > 0 {
		due = last.Add(g.Quiet)
	}
	if g.Within > 0 {
		due = earlier(due, created.Add(g.Within))
	}
	return due
}

// A gathering has the input that a run begins with, and the runs that it continues.
type gathering struct {
	input []byte
	spill journal.Number
	runs  []journal.Number
	slot  store.Ask // the slot by which it gathered
}

// ids returns the IDs of the runs.
func (g *gathering) ids(database string) (ids []journal.RunID) {
	for _, n := range g.runs {
		ids = append(ids, journal.MakeRunID(database, n))
	}
	return ids
}

// read reads the inputs, and computes the input of the run.
func (g *gathering) read(r *run, own []byte, seq int64) (wrong *journal.Failure, err error) {
	var inputs [][]byte
	union := r.def.Gather.Union
	if union == nil {
		err = g.readLast(r.k)
	} else {
		if seq != 0 {
			if own, err = r.k.fetch(r.number(), seq); err != nil {
				return nil, err
			}
		}
		inputs, err = g.readAll(r.k, own)
	}
	if err != nil || len(g.runs) == 0 {
		return nil, err
	}
	if union != nil {
		if g.input, err = union(inputs); err != nil {
			return &journal.Failure{Code: journal.CodeInvalid, Message: err.Error()}, nil
		}
	}
	g.spill, wrong = r.k.persistPayload("the input", &g.input)
	return wrong, nil
}

// readLast reads the last input that is readable. The runs after it stay in line.
func (g *gathering) readLast(k *Kernel) (err error) {
	for len(g.runs) > 0 {
		last := len(g.runs) - 1
		g.input, err = k.fetch(g.runs[last], 1)
		if !isCorrupt(err) {
			return err
		}
		g.runs = g.runs[:last]
	}
	return nil
}

// readAll reads the inputs, up to one that is not readable or makes them too large together. That
// run and those after it stay in line.
func (g *gathering) readAll(k *Kernel, own []byte) (inputs [][]byte, err error) {
	inputs = [][]byte{own}
	size := len(own)
	for i, n := range g.runs {
		data, err := k.fetch(n, 1)
		size += len(data)
		if isCorrupt(err) || size > k.cfg.MaxPayload {
			g.runs = g.runs[:i]
			break
		}
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, data)
	}
	return inputs, nil
}

func isCorrupt(err error) bool {
	var corrupt *journal.CorruptError
	return errors.As(err, &corrupt)
}
