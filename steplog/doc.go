// Package steplog keeps the log lines of steps with their runs.
//
// On request, what the body of a step logs by package log/slog, with the context of the step, is
// also kept in the journal of the run: so it is found by the run, and not by the machine on which
// the step was executed. [Keep] is the request, an option of a step or of a workflow, and [Handler]
// is around the handler of the application.
//
//	slog.SetDefault(slog.New(steplog.Handler(slog.NewJSONHandler(os.Stderr, nil))))
//
//	perdure.Step(ctx, "charge", func(ctx context.Context) (Receipt, error) {
//		slog.InfoContext(ctx, "charging", "cents", o.Cents)
//		...
//	}, steplog.Keep{})
//
// [Logger] returns a logger for code that logs without a context. [Read] returns the lines, and so
// does perdure runs logs.
//
// # What is kept
//
//   - Time, level, message and attributes of a line, as JSON, by step and attempt, also of attempts
//     that failed, timed out or were cancelled. A replay adds nothing.
//   - Lines are collected and recorded in few entries: a hundred at a time, after a second, and
//     before the record of how the attempt ended. The body never waits for that. If the process
//     dies, the lines of the last second may be lost. The attempt that is made again has the same
//     number.
//   - The lines of an attempt and those of a run are limited in bytes. What comes after the first
//     line over a limit is left out, and a last line says how many lines that were.
//   - Lines are kept as long as the run. A run that retries another one, or was forked, has the
//     lines of the steps that it keeps.
//
// A line that is logged after the attempt is over or was given up is not kept. The handler of the
// application gets every line, kept or not, but none again that workflow code logs in a replay. The
// store has the lines as they are: do not log secrets.
package steplog
