package judge

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/perdure/perdure/internal/torture/play"
	"github.com/perdure/perdure/journal"
)

// A writing has what the bodies of one step have put out, as the journal has it.
type writing struct {
	part   int64    // the part of the stream that counts; 0 for none
	chunks []string // of that part
}

// outputs judges what the steps of all runs have put out.
func (b *bench) outputs() {
	for _, r := range b.Runs {
		for _, bad := range outputOf(r.Entries) {
			b.wrong("run %s of %s: %s", r.Head.ID, r.Head.WorkflowID, bad)
		}
	}
}

// outputOf judges what the steps of a run have put out: at each entry, a step has one part of the
// stream at most that counts, and at the end it has all that the attempt has put in whose result is
// recorded. The lines of an attempt are within their limit.
func outputOf(entries []journal.Entry) (bad []string) {
	steps, calls := map[journal.Op]*writing{}, map[journal.Op]string{}
	wrong := func(e *journal.Entry, format string, args ...any) {
		bad = append(bad, fmt.Sprintf("entry %d of step %v: ", e.Seq, e.Op)+
			fmt.Sprintf(format, args...))
	}
	for i := range entries {
		e := &entries[i]
		w := steps[e.Op]
		if w == nil {
			w = &writing{}
			steps[e.Op] = w
		}
		switch e.Kind {
		case journal.StepOutput:
			if flaw := w.put(e); flaw != "" {
				wrong(e, "%s", flaw)
			}
		case journal.StepLogged:
			if flaw := logged(e); flaw != "" {
				wrong(e, "%s", flaw)
			}
		case journal.VariableSet:
			if strings.HasPrefix(e.Detail.Variable, play.Said) {
				var call string
				_ = json.Unmarshal(e.Data, &call)
				calls[e.Op] = call
			}
		case journal.StepCompleted:
			call, said := calls[e.Op]
			want := fmt.Sprint(call, " 0,", call, " 1,", call, " 2")
			if got := strings.Join(w.chunks, ","); said && got != want {
				wrong(e, "the stream has %q of it, and the attempt has put in %q", got, want)
			}
		}
	}
	return bad
}

// put takes a chunk, or the end of the validity of a part. It returns what is wrong with it.
func (w *writing) put(e *journal.Entry) string {
	d := e.Detail
	switch {
	case d.Void && (d.Part == 0 || d.Part != w.part):
		return fmt.Sprintf("part %d ends, and part %d counts", d.Part, w.part)
	case d.Void:
		w.part, w.chunks = 0, nil
		return ""
	case d.Part != w.part:
		return fmt.Sprintf("a chunk of part %d, and part %d counts", d.Part, w.part)
	}
	w.part = cmp.Or(d.Part, e.Seq)
	var chunk string
	if err := json.Unmarshal(e.Data, &chunk); err != nil {
		return err.Error()
	}
	w.chunks = append(w.chunks, chunk)
	return ""
}

// logged returns what is wrong with the lines of an entry.
func logged(e *journal.Entry) string {
	kept := 0
	for line := range bytes.Lines(e.Data) {
		var l struct{ Omitted int }
		if err := json.Unmarshal(line, &l); err != nil {
			return err.Error()
		}
		if l.Omitted == 0 {
			kept += len(line)
		}
	}
	if kept > play.LogLimit {
		return fmt.Sprintf("%d bytes of lines are kept, the limit is %d", kept, play.LogLimit)
	}
	return ""
}
