package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// An Action is what the outside world can be asked for.
type Action string

// The actions.
const (
	Reserve Action = "reserve" // take goods out of stock
	Charge  Action = "charge"  // take money from a card
	Ship    Action = "ship"    // hand goods to the carrier, who may refuse
	Refund  Action = "refund"  // give the money back
	Release Action = "release" // put the goods back
)

// A Call is one line of the ledger: what the outside world was asked for. A
// repeated call is a line of its own.
type Call struct {
	Seq      int       `json:"seq"` // its line, counted from 1
	At       time.Time `json:"at"`
	Action   Action    `json:"action"`
	Order    string    `json:"order"`
	Key      string    `json:"key"` // the idempotency key
	Attempt  int       `json:"attempt"`
	Worker   int       `json:"worker"` // the process that called
	Quantity int       `json:"quantity"`
	Cents    int64     `json:"cents"`
	Stock    int       `json:"stock"` // what is left once the call's effect is there
	Refused  string    `json:"refused,omitempty"`
}

// A ledger is an append-only file of calls. It is used by one goroutine at a
// time.
type ledger struct {
	path string // absolute
	file *os.File
	last int
}

// newLedger makes an empty ledger. It fails where the file is there already.
func newLedger(path string) (*ledger, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	return &ledger{path: path, file: f}, nil
}

// write numbers the call and writes it down. When it returns nil the line is on
// disk.
func (l *ledger) write(c *Call) error {
	c.Seq, c.At = l.last+1, time.Now().UTC()
	line, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if _, err := l.file.Write(append(line, '\n')); err != nil {
		return err
	}
	l.last++
	return l.file.Sync()
}

func (l *ledger) close() error { return l.file.Close() }

// ReadLedger gives the calls of a ledger in the order in which they came. A last
// line without an end is not one of them: nobody got an answer to it.
func ReadLedger(path string) ([]Call, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	whole := data[:bytes.LastIndexByte(data, '\n')+1]
	var calls []Call
	for line := range bytes.Lines(whole) {
		var c Call
		if err := json.Unmarshal(line, &c); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, len(calls)+1, err)
		}
		calls = append(calls, c)
	}
	return calls, nil
}
