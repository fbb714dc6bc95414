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

// An Action is what the outside world can be asked for. The step that asks for
// it has its name.
type Action string

// The actions.
const (
	Reserve  Action = "reserve"      // take goods out of stock
	Charge   Action = "charge"       // take money from a card
	Ship     Action = "ship"         // hand goods to the carrier, who may refuse
	Refund   Action = "undo:charge"  // give the money back
	Release  Action = "undo:reserve" // put the goods back
	Hold     Action = "try:from"     // set money of an account aside
	Announce Action = "try:to"       // ask an account to take money, which may be closed
	Take     Action = "confirm:from" // take the money that was set aside
	Give     Action = "confirm:to"   // put it into the other account
	GiveBack Action = "cancel:from"  // put it into the account that it came from
	Mail     Action = "mail"
	Print    Action = "print"
	Bill     Action = "bill"   // have a subscriber pay for a month
	Ask      Action = "ask"    // ask the model, which costs tokens
	Search   Action = "search" // a tool of the agent, as the next two
	Track    Action = "track"
	Weather  Action = "weather"
)

// A Target is one thing that a run asks the outside world for.
type Target struct {
	Run    string `json:"run"` // its workflow ID
	Action Action `json:"action"`
	Of     string `json:"of,omitempty"` // the key of the step, where one action is asked for several times
}

// step is what people call the step: print parcel-3.
func (t Target) step() string { return strings.TrimSpace(string(t.Action) + " " + t.Of) }

// String gives the step and whose it is: print parcel-3 of lbl-3.
func (t Target) String() string { return t.step() + " of " + t.Run }

// A Call is one line of the ledger: what the outside world was asked for. A
// repeated call is a line of its own.
type Call struct {
	Seq int       `json:"seq"` // its line, counted from 1
	At  time.Time `json:"at"`
	Target
	Key     string `json:"key"` // the idempotency key
	Attempt int    `json:"attempt"`
	Worker  int    `json:"worker"`            // the process that called
	Account string `json:"account,omitempty"` // of the bank
	Amount  int64  `json:"amount,omitempty"`  // goods, or cents
	Text    string `json:"text,omitempty"`    // of a mail, or what the model or a tool is asked
	Left    int64  `json:"left"`              // stock, balance or tokens once the call's effect is there
	Refused string `json:"refused,omitempty"`
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
