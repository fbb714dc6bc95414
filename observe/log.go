package observe

import (
	"context"
	"log/slog"
	"strings"
)

// Log returns an observer that writes notices of at least a level to a log. Nil means
// [slog.Default] at the time of the notice. [slog.LevelWarn] selects what an operator or the author
// of a workflow should look at, such as a run that ends FAILED or TIMED_OUT. [slog.LevelInfo] adds
// the progress of runs.
func Log(to *slog.Logger, from slog.Level) Observer {
	var kinds []Kind
	for kind, most := range levels {
		if most >= from {
			kinds = append(kinds, kind)
		}
	}
	return Observer{Kinds: kinds, See: func(n Notice) {
		if level := levelOf(n); level >= from {
			l := to
			if l == nil {
				l = slog.Default()
			}
			l.LogAttrs(context.Background(), level, "perdure: "+string(n.Kind), attributes(n)...)
		}
	}}
}

// levels has the kinds that are logged, each with the highest level of its notices.
var levels = map[Kind]slog.Level{
	CleanupFailed:          slog.LevelWarn,
	StepCompensationFailed: slog.LevelWarn,
	DeadLettered:           slog.LevelWarn,
	DefinitionAdvised:      slog.LevelWarn,
	EngineDraining:         slog.LevelWarn,
	EngineExpired:          slog.LevelWarn,
	EngineNotRunning:       slog.LevelWarn,
	LateResult:             slog.LevelWarn,
	LeaseLost:              slog.LevelWarn,
	LoopStopped:            slog.LevelWarn,
	ListenerFailed:         slog.LevelWarn,
	ParticipantFailed:      slog.LevelWarn,
	PurgeFailed:            slog.LevelWarn,
	RunParked:              slog.LevelWarn,
	RunEnded:               slog.LevelWarn,
	RunRetrying:            slog.LevelWarn,
	StepAbandoned:          slog.LevelWarn,
	StepFailed:             slog.LevelWarn,
	StepRetrying:           slog.LevelWarn,
	StepsLeft:              slog.LevelWarn,
	StoreFailed:            slog.LevelWarn,
	TurnLent:               slog.LevelWarn,

	KeyAdvised:      slog.LevelInfo,
	LeaseRegained:   slog.LevelInfo,
	ReplayDiffered:  slog.LevelInfo,
	RunContinued:    slog.LevelInfo,
	RunResumed:      slog.LevelInfo,
	RunStarted:      slog.LevelInfo,
	SignalDelivered: slog.LevelInfo,
	StoreRecovered:  slog.LevelInfo,
	TimerFired:      slog.LevelInfo,
}

// levelOf returns the level of a notice. A drain that has just begun, expected failures, remarks on
// a definition that are not warnings, and ends of runs that need nobody's attention have a lower
// level than other notices of their kind.
func levelOf(n Notice) slog.Level {
	switch {
	case n.Benign,
		n.Kind == EngineDraining && n.Attempt <= 1,
		n.Kind == DefinitionAdvised && !strings.HasPrefix(n.Reason, "WARNING"),
		n.Kind == RunEnded && (n.DeadLettered || n.Status != "FAILED" && n.Status != "TIMED_OUT"):
		return slog.LevelInfo
	}
	return levels[n.Kind]
}

// attributes returns the fields of a notice as attributes, without its kind.
func attributes(n Notice) (out []slog.Attr) {
	for _, a := range []struct{ name, value string }{
		{"workflow", n.Workflow}, {"workflow_id", n.WorkflowID}, {"run_id", n.Run},
		{"status", n.Status},
		{"step", n.Step}, {"phase", n.Phase}, {"signal", n.Signal}, {"timer", n.Timer},
		{"other", n.Other}, {"reason", n.Reason}, {"error", n.Err},
	} {
		if a.value != "" {
			out = append(out, slog.String(a.name, a.value))
		}
	}
	if n.Attempt > 0 {
		out = append(out, slog.Int("attempt", n.Attempt))
	}
	if !n.Due.IsZero() {
		out = append(out, slog.Time("due", n.Due))
	}
	return out
}
