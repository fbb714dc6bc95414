// Package schedule starts runs at times: by a cron expression, at a fixed rate, or with a fixed
// delay between them. A schedule starts any workflow, graph, saga or TCC by its name.
//
// A schedule is a durable workflow that sleeps until its next time. An engine that is to execute
// schedules registers it:
//
//	err := eng.Register(schedule.Workflow())
//
// The program of package app always does. [Set], [Pause], [RunNow] and the other functions work on
// an engine, or on a client of the same store. [Declare] declares schedules beside the definition
// of the workflow that they start.
//
// The time at which a run is to start is its nominal time. Each nominal time of a schedule starts
// at most one run, on any number of engines, over crashes and jumps of clocks.
package schedule
