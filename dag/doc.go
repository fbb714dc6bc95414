// Package dag declares graph workflows: steps, and the order between them.
//
//	var fulfil = dag.New[Order]("fulfil")
//	var (
//		check  = dag.Add(fulfil, "check", shop.Check)
//		charge = dag.Add(fulfil, "charge", card.Charge).After(check).Undo(card.Refund)
//		pack   = dag.Add(fulfil, "pack", stock.Pack).After(check)
//		ship   = dag.Add(fulfil, "ship", courier.Ship).After(charge, pack)
//	)
//
// A graph is a workflow, written on packages perdure and pattern: after a crash at any point it
// goes on from the same point. Steps run layer by layer: first the steps that come after no other
// step, then the steps that come after these. The steps of a layer run at once. A step has one
// recorded result. Later steps get it from a field of their argument with a tag
// ([pattern.Arguments]), or from [Step.Output].
//
// When a step has failed, the other steps of its layer run to their end, and no later step begins.
// Then the steps that are done and have a compensation are undone, the step that ended last first.
// If a compensation fails, the others are still called. Then there is a dead letter for each step
// that has failed, and the run is FAILED.
//
// # When the definition changes
//
// A run that has begun goes on with the definition of the build that has loaded it. A step is
// known by its ID: another function under the same ID changes nothing that is recorded. If the
// run comes to a new ID while recorded steps lie ahead, the new ID may be a recorded step with
// another name, and the effect of this step would happen twice. So the run is suspended until an
// operator resumes it. In a definition with the option [perdure.ByName] the run goes on. See
// [perdure.Added].
package dag
