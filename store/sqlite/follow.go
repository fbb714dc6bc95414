package sqlite

import (
	"database/sql/driver"
	"fmt"
	"sync"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// countEntries counts how many of the given entries exist.
var countEntries = places("select count(*) from (values ", "(?, ?)",
	") p cross join perdure_entries e where e.run = p.column1 and e.seq = p.column2")

// follow refuses a group whose entries would leave a hole in a journal: the entry before the first
// entry of a change must exist.
func (tx *transaction) follow() error {
	var pairs []driver.Value
	for i := range tx.group.Changes {
		c := &tx.group.Changes[i]
		if seq := c.Follows(); seq > 0 && (tx.there == nil || !tx.there[i]) &&
			!tx.store.written.has(c.Run, seq) {
			pairs = append(pairs, int64(c.Run), seq)
		}
	}
	for width := countEntries.width; len(pairs) > 0; {
		n := min(len(pairs), runsAtATime*width)
		sql, args := countEntries.of(pairs[:n])
		there, err := tx.value(sql, args...)
		if err != nil {
			return err
		}
		if integer(there) != int64(n/width) {
			return &store.DataError{
				Err: fmt.Errorf("an entry does not follow the last one of its run that is there: "+
					"of %d runs %d fit", n/width, integer(there)),
			}
		}
		pairs = pairs[n:]
	}
	return nil
}

// A written remembers the last entries that this handle has committed, by run. Looking for them
// would cost a fifth of a row. The remembered entries stay true, because an entry is removed only
// with its run.
type written struct {
	mu   sync.Mutex
	last map[journal.Number]int64
}

// mostWritten limits how many runs are remembered. Beyond it, all are forgotten and looked for
// again.
const mostWritten = 100_000

// has reports whether an entry is known to exist.
func (w *written) has(run journal.Number, seq int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last[run] == seq
}

// note remembers a group that was committed, except for runs that end or are unloaded.
func (w *written) note(g *store.Group) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil || len(w.last) > mostWritten {
		w.last = map[journal.Number]int64{}
	}
	for i := range g.Changes {
		c := &g.Changes[i]
		switch n := len(c.Entries); {
		case c.Head != nil && (c.Unload || !c.Head.Ended.IsZero()):
			delete(w.last, c.Run)
		case n > 0 && c.Verdict == store.Written:
			w.last[c.Run] = c.Entries[n-1].Seq
		}
	}
}
