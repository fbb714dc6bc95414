// Package orchestrator has event-driven orchestrators and their memory. An orchestrator is called
// with one event (package event) at a time for a subject, which names one instance. Between two
// events the state of the instance is in a [Memory].
//
// An application can bring a memory of its own: it implements the four methods of [Memory], each
// with one try, and proves it with package memorytest. [Insist] adds the tries, so that all
// memories insist in the same way. [Local] is a memory within one process.
//
// [Orchestrator.On] handles one event. What follows from it is one write: the state, the events
// that are to be emitted, and the ID of the event. So a crash anywhere neither loses nor doubles an
// event for a consumer that knows the IDs that it has seen. The handler may be called again.
package orchestrator
