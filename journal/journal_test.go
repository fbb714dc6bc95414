package journal_test

import (
	"math"
	"strings"
	"testing"

	"github.com/perdure/perdure/journal"
)

const (
	maxEngine = 1<<26 - 1
	maxCount  = 1<<37 - 1
)

func TestNumbersRoundTrip(t *testing.T) {
	for _, engine := range []journal.EngineID{1, 2, 77, maxEngine} {
		for _, count := range []int64{1, 2, 1 << 32, maxCount} {
			n, err := journal.MakeNumber(engine, count)
			if err != nil {
				t.Fatal(err)
			}
			if n <= 0 || n.Engine() != engine || n.Count() != count {
				t.Errorf("number %d of engine %d is %d: engine %d, count %d", count, engine, n,
					n.Engine(), n.Count())
			}
			id := journal.MakeRunID("db", n)
			if back, ok := id.Number("db"); !ok || back != n {
				t.Errorf("%s is number %d, %v; want %d", id, back, ok, n)
			}
			if !journal.ValidName(string(id)) {
				t.Errorf("%s is no name", id)
			}
		}
	}
}

func TestNumbersGrow(t *testing.T) {
	before := journal.Number(0)
	for _, p := range []struct {
		engine journal.EngineID
		count  int64
	}{{1, 1}, {1, 2}, {1, maxCount}, {2, 1}, {maxEngine, maxCount}} {
		n, err := journal.MakeNumber(p.engine, p.count)
		if err != nil || n <= before {
			t.Errorf("number %d of engine %d is %d (%v), after %d", p.count, p.engine, n, err,
				before)
		}
		before = n
	}
	if before != math.MaxInt64 {
		t.Errorf("the last number is %d, want all bits but the sign", before)
	}
}

func TestNumbersRefuseToOverflow(t *testing.T) {
	for _, p := range []struct {
		engine journal.EngineID
		count  int64
	}{
		{0, 1}, {-1, 1}, {maxEngine + 1, 1}, {math.MaxInt64, 1},
		{1, 0}, {1, -1}, {1, maxCount + 1}, {1, math.MaxInt64}, {math.MinInt64, math.MinInt64},
	} {
		if n, err := journal.MakeNumber(p.engine, p.count); err == nil || n != 0 {
			t.Errorf("number %d of engine %d is %d", p.count, p.engine, n)
		}
	}
}

func TestRunIDsOfOthersHaveNoNumber(t *testing.T) {
	for _, id := range []journal.RunID{
		"", "db", "db-", "db-1", "db-1-", "db--1", "db-1-2-3", "db-0-1", "db-1-0", "db--1-1",
		"db-1-x", "db-x-1", "db-01-1", "db-1-01", "db-+1-1", "db-1- 1", "other-1-1", "d-1-1",
		"Db-1-1",
		"db-67108864-1", "db-1-137438953472", "db-9223372036854775808-1", "db-1-1\x00",
	} {
		if n, ok := id.Number("db"); ok || n != 0 {
			t.Errorf("%q is number %d", id, n)
		}
	}
	if n, ok := journal.RunID("a-1-1-2").Number("a-1"); !ok || n.Engine() != 1 || n.Count() != 2 {
		t.Errorf("in a database whose identity has a hyphen: %d, %v", n, ok)
	}
}

func TestValidName(t *testing.T) {
	every := "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-"
	for _, c := range []struct {
		name string
		want bool
	}{
		{"", false}, {"a", true}, {every, true}, {".", true}, {"-", true},
		{strings.Repeat("x", 255), true}, {strings.Repeat("x", 256), false},
		{"a b", false}, {"a/b", false}, {"a\x00", false}, {"\x00", false}, {"a\n", false},
		{" a", false},
		{"é", false}, {"名", false}, {"\xff", false}, {"a\xc3", false},
		{strings.Repeat("é", 127), false},
	} {
		if got := journal.ValidName(c.name); got != c.want {
			t.Errorf("ValidName(%q) = %v, want %v", c.name, got, c.want)
		}
	}
	for i := range 256 {
		b := string([]byte{byte(i)})
		if got, want := journal.ValidName(b), strings.Contains(every, b); got != want {
			t.Errorf("ValidName(%q) = %v, want %v", b, got, want)
		}
	}
}

func TestPatternNames(t *testing.T) {
	for p, want := range map[journal.Pattern]string{
		journal.PatternWorkflow: "WORKFLOW", journal.PatternSaga: "SAGA", journal.PatternTCC: "TCC",
		journal.PatternMachine:      "MACHINE",
		journal.PatternOrchestrator: "ORCHESTRATOR", 9: "Pattern(9)",
	} {
		if got := p.String(); got != want {
			t.Errorf("pattern %d is %q, want %q", uint8(p), got, want)
		}
	}
}

func TestOperationsAreShownByNameKeyAndOccurrence(t *testing.T) {
	for _, c := range []struct {
		op   journal.Op
		want string
	}{
		{journal.Op{Name: "charge", Occ: 1}, "charge"},
		{journal.Op{Name: "charge", Occ: 2}, "charge#2"},
		{journal.Op{Name: "ship", Key: "4711", Occ: 1}, "ship[4711]"},
		{journal.Op{Scope: 9, Name: "ship", Key: "4711", Occ: 3}, "ship[4711]#3"},
	} {
		if got := c.op.String(); got != c.want || c.op.IsZero() {
			t.Errorf("%+v is shown as %q, want %q", c.op, got, c.want)
		}
	}
	if !(journal.Op{}).IsZero() {
		t.Error("the zero Op names an operation")
	}
}
