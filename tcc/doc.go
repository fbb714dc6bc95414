// Package tcc declares TCC transactions: participants that each try, and are then all
// confirmed, or all cancelled.
//
//	var transfer = tcc.New[Transfer]("transfer")
//	var (
//		debit  = tcc.Add(transfer, "debit", bank.Hold).Confirm(bank.Take).Cancel(bank.Release)
//		credit = tcc.Add(transfer, "credit", bank.Announce).Confirm(bank.Book).Cancel(bank.Forget)
//	)
//
// A TCC is a workflow, written with the public API of package perdure alone: after a
// crash in any phase it goes on in that phase.
//
//   - TRYING: the participants try one after the other. The first one that fails, and is
//     not optional, ends the phase; an optional one is left out from then on.
//   - CONFIRMING: all that have tried confirm, at once, also where one of them fails. When
//     all have succeeded, the run is CONFIRMED.
//   - CANCELING: where a try has failed, or a confirm, all that have tried cancel, the last
//     one first, also where one of them fails. When all have succeeded, the run is
//     CANCELED, else FAILED, with a dead letter.
//
// TCCs are put together in a [Composition], and are a part of any workflow by
// [TCC.Inline]. A step of a saga, whose body is no workflow code, starts one by
// [TCC.Execute] under a workflow ID of its own, and hands on what it needs of the headers
// of its run.
//
// # What is promised
//
//   - Each decision is durable before the first participant hears of it, and never
//     changes: the one to confirm or to cancel, and, after confirms have failed, the one
//     to cancel. From the first on neither a cancel nor the timeout of the run has an
//     effect. Before, both have the TCC turn to its cancel phase.
//   - A try, confirm or cancel of one participant has one idempotency key, however often
//     it is executed.
//
// A run that is told to end while no engine has begun it ends as any other run does:
// nobody has tried.
//
// # What participants must bear
//
// A participant whose try was under way when the run was cancelled, or timed out, is
// cancelled too: nobody knows whether it has tried, and what its try gave is empty. One
// whose try has failed is not, also where it has passed its timeout in the last attempt: a
// try must leave nothing behind when it fails. A step that
// was given up may go on, so a try can come after its cancel. For participants with a
// database package barrier sees to it that a cancel without a try does nothing, that a
// try after its cancel does nothing, and that each phase takes effect once.
//
// # Confirmed, then cancelled
//
// A confirm does not end the matter. A participant that has confirmed is cancelled where another
// one could not confirm, and where a composition is called off of which its TCC is a member. So a
// cancel undoes what its try has done, and what its confirm has done if it did: what was held is
// released, what was booked is booked back. It is told which by what the participant itself has
// kept, not by the engine, since a confirm that failed for good may have taken effect all the same;
// in a transaction of package barrier it is told by barrier.Confirmed. A participant that cannot
// take back what it has confirmed belongs into a TCC that nothing comes after, and last in it.
//
// # When the definition changes
//
// A run that has begun goes on with the definition of the build that has it. A participant is
// known by its ID: another function under the same ID changes nothing of what is recorded.
// A new ID that the run comes to while recorded ones lie ahead may be one of them renamed,
// and its effect would come twice. So the run is suspended until an operator resumes it;
// a definition with the option [perdure.ByName] has it go on. See [perdure.Added].
package tcc
