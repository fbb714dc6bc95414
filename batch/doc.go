// Package batch carries out one order on many runs: it retries, skips, forks, compensates, cancels
// or terminates all runs that a filter selects, or those of a list.
//
// A batch is a durable workflow, so it goes on after a crash. An engine that is to execute batches
// registers it:
//
//	err := eng.Register(batch.Workflow())
//
// The program of package app always does. [Preview] shows the runs that a batch would have, [Start]
// starts one, [Get] shows how far it is, and [Stop] stops it. They work on an engine, or on a
// client of the same store.
//
// A batch does with each run what [admin.Client.Act] does. The journal of each run has the
// operator, and as the reason the ID of the batch with the reason of the order. A run that has
// changed meanwhile, so that the action is not for it any more, is skipped; any other error of a
// run is counted as failed. Neither ends the batch, and it keeps the first of them with the error.
//
// # Each run once
//
// A batch works on at most 100 runs at a time, and then records the result. After a crash before
// that record it goes through the same runs again. A run that has its order already is not changed:
//
//   - At most one run goes on from a run. The second retry, skip, fork or compensation finds the
//     run that the first one has started. The reason in its journal begins with the ID of the
//     batch, so the batch counts it as its own work, and as skipped if somebody else started it.
//   - A run that was cancelled or terminated is left unchanged by the second request.
//
// A filter selects only runs that were created before the batch, so the runs that the batch starts
// are none of its own work, also if they fail at once. A filter of runs to retry, skip, fork or
// compensate leaves out those whose workflow ID had a later run by then: that one is the run to act
// on.
//
// A retry of a parent retries its children that have failed. If a filter selects both, the child
// has a new run of its own, and one more if that has failed when the turn of the parent comes.
//
// The journal of a batch has a few entries for each 100 runs, and not one for each run. The batch
// continues as a new run after 50 such steps. So neither its journal nor its memory grows with the
// number of runs that a filter selects.
package batch
