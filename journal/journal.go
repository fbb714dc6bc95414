// Package journal defines runs, the entries of their journals, and the stored form of these.
//
// A run's journal is an append-only list of entries, and it is the truth: the run's status, steps
// and result are folded from it ([Aggregate]). A head is one row per run, which lists and claims
// read. It repeats part of the journal and adds the engine that executes the run.
//
// The package imports the standard library only and nothing of this module.
package journal

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A RunID names a run outside its database. It is unique across databases, because it has the
// identity of the database beside the run's [Number]. Idempotency keys that are made of it are
// unique across databases, too.
type RunID string

// A Number names a run inside one database. Each new run of an engine has a larger number, so that
// the rows of live runs are neighbours at the right edge of an index. Zero names no run.
type Number int64

// An EngineID names one start of one engine. It is never used again. Zero
// names no engine.
type EngineID int64

const (
	counterBits = 37 // 137 billion runs for each start of an engine
	engineBits  = 63 - counterBits
)

// MakeNumber returns the number of an engine's n-th run or payload; n counts from 1. It fails if
// the bits of either part are used up. One start of an engine reaches that after about eighty days
// at 20,000 runs a second.
func MakeNumber(engine EngineID, n int64) (Number, error) {
	if engine <= 0 || engine >= 1<<engineBits || n <= 0 || n >= 1<<counterBits {
		return 0, fmt.Errorf("journal: engine %d has no number for its run %d: restart the engine",
			engine, n)
	}
	return Number(int64(engine)<<counterBits | n), nil
}

// Engine returns the engine that made the number.
func (n Number) Engine() EngineID { return EngineID(n >> counterBits) }

// Count returns n for the n-th number of its engine.
func (n Number) Count() int64 { return int64(n) & (1<<counterBits - 1) }

// MakeRunID returns the run ID of a number in a database with that identity.
func MakeRunID(database string, n Number) RunID {
	buf := make([]byte, 0, len(database)+16)
	buf = append(buf, database...)
	buf = append(buf, '-')
	buf = strconv.AppendInt(buf, int64(n.Engine()), 10)
	buf = append(buf, '-')
	buf = strconv.AppendInt(buf, n.Count(), 10)
	return RunID(buf)
}

// Number returns the run's number in a database with that identity, and false if the ID is not
// valid or belongs to another database.
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

// A Pattern is the way in which a workflow was declared.
type Pattern uint8

// The patterns. A code workflow and a graph are both PatternWorkflow.
const (
	PatternWorkflow Pattern = iota
	PatternSaga
	PatternTCC
	PatternMachine
	PatternOrchestrator
)

var patternNames = [...]string{"WORKFLOW", "SAGA", "TCC", "MACHINE", "ORCHESTRATOR"}

// String returns the pattern's name, in capitals.
func (p Pattern) String() string {
	if int(p) < len(patternNames) {
		return patternNames[p]
	}
	return "Pattern(" + strconv.Itoa(int(p)) + ")"
}

// A Head has the fields of a run that lists and claims read.
type Head struct {
	Number     Number
	ID         RunID
	WorkflowID string // the ID that the application chose; at most one open run has it
	Workflow   string // the name that the workflow was registered under
	Pattern    Pattern
	Status     Status
	Owner      EngineID // the engine that executes the run; zero for none
	// the time from which the run may be claimed; zero if only a message makes it claimable
	Wake    time.Time
	Created time.Time
	Ended   time.Time // zero while the run is open
	Last    int64     // the sequence of the entry that ended the run; zero while it is open
	Cause   string    // the reason why the run is suspended or waits, in words
	Crashes int       // the number of engines in a row that died while executing the run
	// the number of messages ever sent to the run, which is the number of the last one
	Mail int64
	// the first run of the chain that continues as new; the run's own number if there is no chain
	Chain Number
	// the run that started this one as a child and learns of its end; zero for none
	Parent Number
	Keep   time.Duration // how long after its end the run keeps its workflow ID
	// how long the run is kept after its end; set at its start, or by the first engine that has its
	// workflow
	Retain Retention
	// the failure with which the run ended, or the reason for which it was cancelled: at most
	// MaxError bytes of it; empty if the run has not ended or has reached its goal
	Error string
}

// MaxError is the maximum length of Head.Error in bytes.
const MaxError = 240

// MaxName is the maximum length of workflow IDs and names in bytes.
const MaxName = 255

// ValidWorkflowID reports whether s is a valid workflow ID: 1 to 255 bytes of printable UTF-8
// without spaces. IDs are compared byte by byte.
func ValidWorkflowID(s string) bool {
	return s != "" && len(s) <= MaxName && utf8.ValidString(s) &&
		!strings.ContainsFunc(s, func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) })
}

// ValidName reports whether s is a valid name: [A-Za-z0-9._:-]{1,255}.
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

// ParentID returns the run ID of the parent; empty if there is none.
func (h *Head) ParentID() RunID {
	if h.Parent == 0 {
		return ""
	}
	own := string(MakeRunID("", h.Number))
	return MakeRunID(strings.TrimSuffix(string(h.ID), own), h.Parent)
}
