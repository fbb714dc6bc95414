// Package saga declares sagas: steps that are undone when a later one fails.
//
//	var order = saga.New[Order]("order")
//	var (
//		reserve = saga.Add(order, "reserve", stock.Reserve).Undo(stock.Release)
//		charge  = saga.Add(order, "charge", card.Charge).After(reserve).Undo(card.Refund)
//		ship    = saga.Add(order, "ship", courier.Ship).After(charge)
//	)
//
// A saga is a workflow, written on packages perdure and pattern. After a crash at any point it
// continues where it was, also in the middle of undoing. Steps run layer by layer: first the steps
// that depend on nothing, then the steps that depend on them. When a step fails, the other steps of
// its layer run to their ends, nothing later begins, and everything that is done is undone by the
// [Policy]. The failed step itself is not undone: it must leave nothing behind, or its own body
// must clean up.
//
// # What is promised
//
//   - A step has one recorded result, and so has its compensation. Each is executed at
//     least once, and all its executions have the same idempotency key
//     ([perdure.IdempotencyKey]).
//   - A compensation begins only when two facts are durable: that its step has ended and
//     that compensation has begun. From then on neither a cancel nor the timeout of the
//     saga stops it.
//   - A saga that is cancelled, or whose timeout passes, is undone in the same way. It
//     then ends CANCELLED or TIMED_OUT. A step that was under way at that time is
//     CANCELLED and not undone: like a failed step, it must leave nothing behind.
//
// # What is not promised
//
// A saga is not a transaction: others see what it has done so far. Put a step that cannot be undone
// last, or use a TCC.
//
// # When the definition changes
//
// A run that has begun continues with the definition of the build that executes it. A step is known
// by its ID: another function under the same ID changes nothing that is recorded. If the run comes
// to a new ID while recorded steps lie ahead, the new step may be a recorded one that was renamed,
// and its effect would happen twice. So the run is suspended until an operator resumes it. With the
// option [perdure.ByName] the run continues instead. See [perdure.Added].
package saga
