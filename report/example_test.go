package report_test

import (
	"fmt"

	"github.com/perdure/perdure/report"
)

// The parts of a report that only declared patterns have.
func ExampleUndo() {
	r := report.Run{Undo: &report.Undo{
		Policy: "STRICT_SEQUENTIAL", All: true,
		Steps: []report.Undone{{ID: "charge", Undone: true}},
	}}
	fmt.Println(r.Undo.Policy, r.Undo.Steps[0].ID, r.Undo.All)
	p := report.Phase{Phase: "CONFIRM", Attempts: 2}
	fmt.Println(p.Phase, p.Attempts)
	// Output:
	// STRICT_SEQUENTIAL charge true
	// CONFIRM 2
}
