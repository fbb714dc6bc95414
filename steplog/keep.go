package steplog

import (
	"cmp"
	"log/slog"

	"github.com/perdure/perdure/internal/sealed"
)

// Keep is an option of a step, or of a workflow for all its steps that have none of their own:
// their log lines are kept with the run. The zero value is valid.
type Keep struct {
	Level slog.Level // the lowest level; zero is [slog.LevelInfo]
	// Attempt limits the lines of one attempt in bytes. Zero means 64 KiB. Below zero, no line is
	// kept: that is for a step of a workflow that keeps lines.
	Attempt int
	// Run limits the lines of one run in bytes, as the step finds them. Zero means 1 MiB.
	Run int
}

const (
	defaultAttempt = 64 << 10
	defaultRun     = 1 << 20
)

// rule returns the limits of lines, by their level.
func (k Keep) rule() func(level int) (attempt, run int) {
	attempt, run := cmp.Or(k.Attempt, defaultAttempt), cmp.Or(k.Run, defaultRun)
	return func(level int) (int, int) {
		if level < int(k.Level) {
			return 0, 0
		}
		return attempt, run
	}
}

// ApplyToStep implements perdure.StepOption.
func (k Keep) ApplyToStep(o *sealed.Operation) error {
	o.Keep = k.rule()
	return nil
}

// ApplyToWorkflow implements perdure.WorkflowOption.
func (k Keep) ApplyToWorkflow(w *sealed.Workflow) error {
	w.Keep = k.rule()
	return nil
}
