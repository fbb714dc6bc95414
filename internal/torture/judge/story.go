package judge

import (
	"fmt"
	"strings"
)

// most is the maximum number of entries of a run in a story.
const most = 60

// Facts returns the facts in the output of a run of a program's code.
func Facts(r *Run) []string { return output(r).Facts }

// Story returns the journals of an instance and its children, for readers.
func Story(runs []*Run, instance string) string {
	var b strings.Builder
	for _, r := range runs {
		if r.Head.WorkflowID != instance && !strings.HasPrefix(r.Head.WorkflowID, instance+".") {
			continue
		}
		fmt.Fprintf(&b, "run %s of %s: %v, owner %d, wake %v, mail %d, %s\n", r.Head.ID,
			r.Head.WorkflowID, r.Head.Status, r.Head.Owner, r.Head.Wake, r.Head.Mail, r.Head.Cause)
		for _, e := range r.Entries[max(0, len(r.Entries)-most):] {
			fmt.Fprintf(&b, "\t%d %v %v", e.Seq, e.Kind, e.Op)
			if f := e.Failure(); f != nil {
				fmt.Fprintf(&b, " %s", f.Message)
			}
			if d := e.Detail; d != nil && (d.Mail != 0 || d.Other != "" || !d.Due.IsZero()) {
				fmt.Fprintf(&b, " mail %d other %s due %v", d.Mail, d.Other, d.Due)
			}
			b.WriteByte('\n')
		}
		for _, m := range r.Inbox {
			fmt.Fprintf(&b, "\tunread %d %v %v\n", m.Seq, m.Kind, m.Op)
		}
	}
	return b.String()
}
