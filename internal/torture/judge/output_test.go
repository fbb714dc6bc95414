package judge

import (
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/torture/play"
	"github.com/perdure/perdure/journal"
)

// spec: B-11, B-24
func TestJudgeSeesWhatAStepHasPutOut(t *testing.T) {
	op := journal.Op{Name: "s", Occ: 1}
	entry := func(k journal.Kind, data string, d journal.Detail) journal.Entry {
		return journal.Entry{Kind: k, Op: op, Data: []byte(data), Detail: &d}
	}
	put := func(data string, part int64, void bool) journal.Entry {
		return entry(journal.StepOutput, data, journal.Detail{StepDetail: journal.StepDetail{
			OutputDetail: journal.OutputDetail{Stream: "said", Part: part, Void: void},
		}})
	}
	set := entry(journal.VariableSet, `"a"`, journal.Detail{
		VariableDetail: journal.VariableDetail{Variable: play.Said + "s", ByStep: true},
	})
	done := entry(journal.StepCompleted, "1", journal.Detail{})
	lines := func(n int) journal.Entry {
		return entry(journal.StepLogged, `{"msg":"`+strings.Repeat("x", n)+"\"}\n", journal.Detail{})
	}
	for name, c := range map[string]struct {
		entries []journal.Entry
		bad     string
	}{
		"an attempt": {[]journal.Entry{
			put(`"a 0"`, 0, false), put(`"a 1"`, 1, false), lines(9), put(`"a 2"`, 1, false), set, done,
		}, ""},
		"a second attempt": {[]journal.Entry{
			put(`"b 0"`, 0, false), put("", 1, true), put(`"a 0"`, 0, false), put(`"a 1"`, 3, false),
			put(`"a 2"`, 3, false), set, done,
		}, ""},
		"a lost chunk": {[]journal.Entry{
			put(`"a 0"`, 0, false), put(`"a 2"`, 1, false), set, done,
		}, "has put in"},
		"an attempt before counts": {[]journal.Entry{
			put(`"b 0"`, 0, false), put(`"a 0"`, 0, false),
		}, "and part 1 counts"},
		"a part that is not there ends": {[]journal.Entry{put("", 1, true)}, "and part 0 counts"},
		"too many lines":                {[]journal.Entry{lines(play.LogLimit)}, "the limit is"},
	} {
		for i := range c.entries {
			c.entries[i].Seq = int64(i + 1)
		}
		bad := strings.Join(outputOf(c.entries), "; ")
		if c.bad == "" && bad != "" || !strings.Contains(bad, c.bad) {
			t.Errorf("%s: %q, want %q", name, bad, c.bad)
		}
	}
}
