package orchestrator

import (
	"sync"

	"github.com/perdure/perdure/internal/kernel"
)

// An openRuns has run IDs of instances that were open when an event was delivered to them last, so
// that the next event need not look for its run. What it has may be out of date: then the store
// refuses the event, and the run is looked for.
type openRuns struct {
	mu   sync.Mutex
	runs map[instanceKey]string
}

// An instanceKey is the workflow ID of an instance on the database of a front end.
type instanceKey struct {
	at *kernel.FrontEnd
	id string
}

// maxOpenRuns limits how many run IDs are kept. When it is reached, all are forgotten.
const maxOpenRuns = 10_000

func (o *openRuns) get(k instanceKey) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.runs[k]
}

// set keeps the run of an instance; an empty one is forgotten.
func (o *openRuns) set(k instanceKey, run string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case run == "":
		delete(o.runs, k)
		return
	case o.runs == nil || len(o.runs) >= maxOpenRuns:
		o.runs = map[instanceKey]string{}
	}
	o.runs[k] = run
}
