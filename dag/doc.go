// Package dag declares graph workflows: steps, and which of them come after which.
//
//	var fulfil = dag.New[Order]("fulfil")
//	var (
//		check  = dag.Add(fulfil, "check", shop.Check)
//		charge = dag.Add(fulfil, "charge", card.Charge).After(check).Undo(card.Refund)
//		pack   = dag.Add(fulfil, "pack", stock.Pack).After(check)
//		ship   = dag.Add(fulfil, "ship", courier.Ship).After(charge, pack)
//	)
//
// A graph is a workflow, written with the public API of package perdure alone: after a
// crash at any point it goes on where it was. Steps run layer by layer: those that come
// after nothing, then those that come after these; the steps of a layer run at once. A
// step has one recorded result, which later steps get: by a field of their argument with
// a tag ([pattern.Arguments]), or by [Step.Output].
//
// When a step has failed, the others of its layer end, nothing later begins, and the
// steps that are done and say how are undone, the one that ended last first; a
// compensation that fails keeps no other from being done. Then there is a dead letter for
// each step that has failed, and the run is FAILED.
//
// # When the definition changes
//
// A run that has begun goes on with the definition of the build that has it. A step is
// known by its ID: another function under the same ID changes nothing of what is recorded.
// A new ID that the run comes to while recorded ones lie ahead may be one of them renamed,
// and its effect would come twice. So the run is suspended until an operator resumes it;
// a definition with the option [perdure.ByName] has it go on. See [perdure.Added].
package dag
