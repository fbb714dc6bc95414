// Package journal has the words of the engine: what a run is, what can happen
// to it, and how that is written down.
//
// A run's journal is an append-only list of entries, and it is the truth: the
// run's status, its steps, its result are folds of it ([Aggregate]). A head is
// the one row per run that lists and claims read; it repeats what the journal
// says and adds who executes the run.
//
// The package imports the standard library only and nothing of this module.
package journal

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A RunID names a run for people and for the outside world. It is unique
// across databases: it carries the identity of the database beside the run's
// [Number], so idempotency keys made of it never meet those of another one.
type RunID string

// A Number names a run inside one database. Numbers grow with each new run of
// an engine, so the rows of live runs lie together at the right edge of a tree.
// Zero names no run.
type Number int64

// An EngineID names one start of one engine. It is never used again. Zero
// names no engine.
type EngineID int64

const (
	counterBits = 37 // 137 billion runs for each start of an engine
	engineBits  = 63 - counterBits
)

// MakeNumber gives the number of an engine's n-th run or payload; n counts
// from 1. It fails when either part has used up its bits, which a start of an
// engine reaches after some eighty days at 20,000 runs a second.
func MakeNumber(engine EngineID, n int64) (Number, error) {
	if engine <= 0 || engine >= 1<<engineBits || n <= 0 || n >= 1<<counterBits {
		return 0, fmt.Errorf("journal: no number for run %d of engine %d: restart the engine", n,
			engine)
	}
	return Number(int64(engine)<<counterBits | n), nil
}

// Engine is the engine that made the number.
func (n Number) Engine() EngineID { return EngineID(n >> counterBits) }

// Count says that the number was its engine's n-th.
func (n Number) Count() int64 { return int64(n) & (1<<counterBits - 1) }

// MakeRunID gives the run ID of a number in the database of that identity.
func MakeRunID(database string, n Number) RunID {
	buf := make([]byte, 0, len(database)+16)
	buf = append(buf, database...)
	buf = append(buf, '-')
	buf = strconv.AppendInt(buf, int64(n.Engine()), 10)
	buf = append(buf, '-')
	buf = strconv.AppendInt(buf, n.Count(), 10)
	return RunID(buf)
}

// Number gives the run's number in the database of that identity, and false
// where the ID is none or belongs to another database.
func (id RunID) Number(database string) (Number, bool) {
	rest, ok := strings.CutPrefix(string(id), database+"-")
	if !ok {
		return 0, false
	}
	engine, count, ok := strings.Cut(rest, "-")
	if !ok {
		return 0, false
	}
	e, err1 := strconv.ParseInt(engine, 10, 64)
	c, err2 := strconv.ParseInt(count, 10, 64)
	if err1 != nil || err2 != nil {
		return 0, false
	}
	n, err := MakeNumber(EngineID(e), c)
	if err != nil || MakeRunID(database, n) != id {
		return 0, false
	}
	return n, true
}

// A Pattern says how a workflow was declared.
type Pattern uint8

// The patterns. A code workflow and a graph are both PatternWorkflow.
const (
	PatternWorkflow Pattern = iota
	PatternSaga
	PatternTCC
	PatternMachine
)

var patternNames = [...]string{"WORKFLOW", "SAGA", "TCC", "MACHINE"}

// String is the pattern's name in the spec.
func (p Pattern) String() string {
	if int(p) < len(patternNames) {
		return patternNames[p]
	}
	return "Pattern(" + strconv.Itoa(int(p)) + ")"
}

// A Head is what lists and claims know of a run.
type Head struct {
	Number     Number
	ID         RunID
	WorkflowID string // the user's correlation ID; at most one open run has it
	Workflow   string // the name it was registered under
	Pattern    Pattern
	Status     Status
	Owner      EngineID  // who executes it; zero for nobody
	Wake       time.Time // when it may be claimed; zero for never by itself
	Created    time.Time
	Ended      time.Time // zero while it is open
	Last       int64     // sequence of the entry that ended it; zero while it is open
	Cause      string    // why it is suspended or waits, in words
	Crashes    int       // engines that died in a row while executing it
	Mail       int64     // messages that were ever posted to it; the number of the last one
	// the first run of the chain that continues as new; its own number without
	Chain Number
	// the run that started it as a child and hears how it ends; zero without
	Parent Number
	Keep   time.Duration // how long after its end it stands for its workflow ID
	// how long after its end it is kept; set at its start, or by the first engine that knows its
	// workflow
	Retain Retention
}

// MaxName is the length limit of IDs and names in bytes.
const MaxName = 255

// ValidName says whether s may be an ID or a name: [A-Za-z0-9._:-]{1,255}.
func ValidName(s string) bool {
	if len(s) == 0 || len(s) > MaxName {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '.', c == '_', c == ':', c == '-':
		default:
			return false
		}
	}
	return true
}
