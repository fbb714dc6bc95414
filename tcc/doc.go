// Package tcc declares TCC transactions: each participant tries, and then all are confirmed or all
// are cancelled.
//
//	var transfer = tcc.New[Transfer]("transfer")
//	var (
//		debit  = tcc.Add(transfer, "debit", bank.Hold).Confirm(bank.Take).Cancel(bank.Release)
//		credit = tcc.Add(transfer, "credit", bank.Announce).Confirm(bank.Book).Cancel(bank.Forget)
//	)
//
// A TCC is a workflow, written on packages perdure and pattern. After a crash in any phase it
// continues in that phase.
//
//   - TRYING: the participants try one after the other. The first participant that fails
//     and is not optional ends the phase. An optional participant that fails is left out
//     from then on.
//   - CONFIRMING: all participants that have tried confirm at once, even if one of them
//     fails. When all have succeeded, the run is CONFIRMED.
//   - CANCELING: if a try or a confirm has failed, all participants that have tried cancel,
//     beginning with the last, even if one of them fails. When all have succeeded, the run
//     is CANCELED; else it is FAILED, with a dead letter.
//
// A [Composition] combines several TCCs. [TCC.Inline] makes a TCC a part of any workflow. The body
// of a saga's step is not workflow code: it can start a TCC by [TCC.Execute] under a workflow ID of
// its own, and pass on the headers of its run that the TCC needs.
//
// # What is promised
//
//   - Each decision is durable before the first participant hears of it, and never changes:
//     the decision to confirm or to cancel and, after failed confirms, the decision to
//     cancel. From the first decision on, neither a cancel nor the timeout of the run has
//     an effect. Before it, both make the TCC begin its cancel phase.
//   - A try, confirm or cancel of one participant has one idempotency key, no matter how
//     often it is executed.
//
// A run that is told to end before an engine has begun it ends like any other run: no participant
// has tried.
//
// # What participants must bear
//
// If the try of a participant was under way when the run was cancelled or timed out, the
// participant is cancelled too: nobody knows whether it has tried, and the result of its try is
// empty. A participant whose try has failed is not cancelled, even if its last attempt has passed
// its timeout: a try must leave nothing behind when it fails. A step that was given up may
// continue, so a try can come after its cancel. For participants with a database, package barrier
// ensures that a cancel without a try does nothing, that a try after its cancel does nothing, and
// that each phase takes effect once.
//
// # Confirmed, then cancelled
//
// A confirm is not always the end. A participant that has confirmed is cancelled if another
// participant could not confirm, or if its TCC is a member of a composition that is cancelled. So a
// cancel must undo the effect of the try and, if there was one, the effect of the confirm: it
// releases a hold, and reverses a booking. The participant must find out from its own data which of
// the two is needed, not from the engine, because a confirm that failed for good may still have
// taken effect. In a transaction of package barrier, barrier.Confirmed reports it. Put a
// participant that cannot reverse its confirm last, in a TCC that nothing comes after.
//
// # When the definition changes
//
// A run that has begun continues with the definition of the build that executes it. A participant
// is known by its ID: another function under the same ID changes nothing that is recorded. If the
// run comes to a new ID while recorded steps lie ahead, the new participant may be a recorded one
// that was renamed, and its effect would happen twice. So the run is suspended until an operator
// resumes it. With the option [perdure.ByName] the run continues instead. See [perdure.Added].
package tcc
