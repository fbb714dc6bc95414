// Package saga declares sagas: steps that are undone when a later one fails.
//
//	var order = saga.New[Order]("order")
//	var (
//		reserve = saga.Add(order, "reserve", stock.Reserve).Undo(stock.Release)
//		charge  = saga.Add(order, "charge", card.Charge).After(reserve).Undo(card.Refund)
//		ship    = saga.Add(order, "ship", courier.Ship).After(charge)
//	)
//
// A saga is a workflow, written with the public API of package perdure alone: after a
// crash at any point it goes on where it was, also in the middle of undoing. Steps run
// layer by layer: those that come after nothing, then those that come after these. When
// one has failed, the others of its layer end, nothing later begins, and what is done is
// undone by the [Policy]. The failed step itself is not undone: it must leave nothing
// behind, or be a step that can be told so.
//
// # What is promised
//
//   - A step has one recorded result, and so has its compensation. Each is executed at
//     least once, and every execution of the same one has the same idempotency key
//     ([perdure.IdempotencyKey]).
//   - A compensation begins when it is durable that its step has ended and that
//     compensation has begun. From then on neither a cancel nor the timeout of the saga
//     stops it.
//   - A saga that is cancelled, or whose timeout passes, is undone in the same way, and
//     then ends CANCELLED or TIMED_OUT. A step that was under way then is CANCELLED, and
//     not undone: like one that has failed, it must leave nothing behind.
//
// # What is not
//
// Others see what a saga has done so far: it is no transaction. What cannot be undone
// comes last, or is a TCC.
//
// # When the definition changes
//
// A run that has begun goes on with the definition of the build that has it. A step is
// known by its ID: another function under the same ID changes nothing of what is recorded.
// A new ID that the run comes to while recorded ones lie ahead may be one of them renamed,
// and its effect would come twice. So the run is suspended until an operator resumes it;
// a definition with the option [perdure.ByName] has it go on. See [perdure.Added].
package saga
