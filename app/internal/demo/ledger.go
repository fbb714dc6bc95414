package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// An Action is the name of a step that calls the outside world.
type Action string

// The actions.
const (
	Reserve  Action = "reserve"        // take goods out of stock
	Charge   Action = "charge"         // take money from a card
	Ship     Action = "ship"           // hand goods to the carrier, who may refuse
	Refund   Action = "undo:charge"    // return the money
	Release  Action = "undo:reserve"   // put the goods back
	Hold     Action = "try:debit"      // set money of an account aside
	Announce Action = "try:credit"     // ask an account to take money; it may be closed
	Take     Action = "confirm:debit"  // take the money that was set aside
	Give     Action = "confirm:credit" // put it into the other account
	GiveBack Action = "cancel:debit"   // put it into the account that it came from
	Recall   Action = "cancel:credit"  // withdraw the question
	Ask      Action = "ask"            // mail to somebody who is to decide
	Pay      Action = "pay"            // pay an expense
	Tell     Action = "result"         // mail the decision
	Sales    Action = "read-sales"     // read a file of the archive, as the next two
	Returns  Action = "read-returns"
	Stock    Action = "read-stock"
	Write    Action = "write"  // keep a report
	Think    Action = "think"  // ask the model, which costs tokens
	Search   Action = "search" // a tool of the agent, as the next two
	Track    Action = "track"
	Weather  Action = "weather"
)

// A Target is a step of a run that calls the outside world.
type Target struct {
	Run  string `json:"run"`  // its workflow ID
	Step string `json:"step"` // its path: think[turn-2]
}

// Action returns the name of the step.
func (t Target) Action() Action {
	if end := strings.IndexAny(t.Step, "[#"); end >= 0 {
		return Action(t.Step[:end])
	}
	return Action(t.Step)
}

// String returns the step and its run: think[turn-2] of q-3.
func (t Target) String() string { return t.Step + " of " + t.Run }

// A Call is one line of the ledger: a call of the outside world. A repeated call is a line of
// its own.
type Call struct {
	Seq int       `json:"seq"` // its line, counted from 1
	At  time.Time `json:"at"`
	Target
	Key     string `json:"key"` // the idempotency key
	Attempt int    `json:"attempt"`
	Worker  int    `json:"worker"`            // the process that called
	Account string `json:"account,omitempty"` // of the bank
	Amount  int64  `json:"amount,omitempty"`  // goods, or cents
	Text    string `json:"text,omitempty"`    // of a mail, or for the model or a tool
	Left    int64  `json:"left"`              // stock, balance or tokens after the call
	Refused string `json:"refused,omitempty"`
}

// A ledger is an append-only file of calls. One goroutine at a time uses it.
type ledger struct {
	path string // absolute
	file *os.File
	last int
}

// newLedger makes an empty ledger. It fails if the file exists.
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

// write numbers the call and writes it. When it returns nil, the line is on disk.
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

// ReadLedger returns the calls of a ledger in their order. It leaves out a last line without
// an end: nobody got an answer to that call.
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
