// Package orchestrator has event-driven orchestrators and their memory. An orchestrator is called
// with one event (package event) at a time for a subject, which names one instance. It decides the
// next state of the instance and the events to emit.
//
//	var orders = orchestrator.Define(orchestrator.Orchestrator{
//		Source: "orders",
//		Versions: []orchestrator.Version{{
//			Initial: []string{"order.placed"}, Handle: handleOrder,
//		}},
//	})
//
// # Where an instance lives
//
// By default an instance lives on the durable kernel: [Define] makes a workflow, and each instance
// is a run of it, with the journal, the inbox and the tools of runs.
//
// Where events come without an engine, an instance lives in a [Memory], and [Orchestrator.On]
// handles one event. What follows from it is one write: the state, the events that are to be
// emitted, and the ID of the event. So a crash anywhere neither loses nor doubles an event for a
// consumer that knows the IDs that it has seen. The handler may be called again.
//
// An application can bring a memory of its own: it implements the four methods of [Memory], each
// with one try, and proves it with package memorytest. [Insist] adds the tries, so that all
// memories insist in the same way. [Local] is a memory within one process.
//
// # Styles
//
// A handler is a function that gets an event and the stored state ([Version.Handle]). A [Chart] is
// a state machine that is declared, and makes such a function. A [Stateless] handler has no
// instances: it answers each event by itself.
package orchestrator
