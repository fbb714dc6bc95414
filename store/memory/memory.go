// Package memory keeps runs in memory, for tests, examples and benchmarks. It
// is also the reference for what a store does: one lock, maps and slices, and
// nothing clever. Other drivers are compared with it.
//
// A store by [New] is for one engine at a time, which is dead when its handle is
// closed. One by [NewShared] is for many, each by a handle of its own, with leases by
// the clock of this process.
//
// What is stored is never shared with a caller in a way that he could change,
// with one exception: payloads are not copied. Entry.Data is immutable from the
// moment it is handed to the store, as everywhere in this module.
package memory

import (
	"context"
	"sync"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// schema is what Info tells; a store that nobody can reopen with another
// version has no other.
const schema = 1

// A Store is a [store.Store] in memory. It is one handle on its data: the data
// outlives the handle that is closed. Another one comes from Beside or Reopen.
type Store struct {
	data   *data
	closed bool // guarded by data.mu
}

var (
	_ store.Store   = (*Store)(nil)
	_ store.Watcher = (*Store)(nil)
)

// data is what all handles of one database share.
type data struct {
	mu       sync.Mutex
	database string
	lease    time.Duration // of an engine; 0 where the store is for one
	runs     map[journal.Number]*run
	byNumber []*run            // ascending
	gone     []*run            // purged, with what is left of them
	byID     map[string][]*run // by workflow ID, in the order of creation
	due      map[string]*queue // by workflow: who may be claimed, and when
	// among them all that have mail which their engine was not given
	mail     map[*run]bool
	known    map[sent]*message      // all messages that have a sender's ID
	waiting  map[string][]*unrouted // by workflow ID, in the order of their numbers
	unrouted int64                  // the number of the last one
	owed     map[int64]owed         // by number
	lastOwed int64
	spilled  map[journal.Number][]byte
	engines  map[journal.EngineID]store.Engine
	joined   journal.EngineID // the last one that joined or visited
	holder   *Store           // where the store is for one: the handle whose engine has not left
	watchers map[*watcher]bool
	commits  int64     // counts groups
	clock    time.Time // the latest Now of a group or a leave
}

// New gives an empty store with an identity of its own, for one engine at a time.
func New() *Store { return NewShared(0) }

// NewShared gives an empty store for many engines. One that does not renew its
// lease in time is dead. A lease of 0 makes it a store for one engine.
func NewShared(lease time.Duration) *Store {
	return &Store{data: &data{
		database: store.NewIdentity(),
		lease:    lease,
		runs:     map[journal.Number]*run{},
		byID:     map[string][]*run{},
		due:      map[string]*queue{},
		mail:     map[*run]bool{},
		known:    map[sent]*message{},
		waiting:  map[string][]*unrouted{},
		owed:     map[int64]owed{},
		spilled:  map[journal.Number][]byte{},
		engines:  map[journal.EngineID]store.Engine{},
		watchers: map[*watcher]bool{},
	}}
}

// Beside gives another handle on the same data, as another process would have it.
func (s *Store) Beside() *Store { return &Store{data: s.data} }

// Reopen closes the handle and gives another one on the same data, as a new
// process would have it. Where the store is for one engine, one that did not leave
// is dead; where it is for many, its lease has still to pass.
func (s *Store) Reopen() *Store {
	s.close()
	return s.Beside()
}

// Close closes the handle. Closing it again does nothing.
func (s *Store) Close() error {
	s.close()
	return nil
}

func (s *Store) close() {
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	s.closed = true
	if s.data.holder == s {
		s.data.holder = nil
	}
}

// enter locks the data for one call. On nil the caller unlocks it by leave.
func (s *Store) enter() error {
	s.data.mu.Lock()
	if s.closed {
		s.data.mu.Unlock()
		return store.ErrClosed
	}
	return nil
}

func (s *Store) leave() { s.data.mu.Unlock() }

// Info tells what the store is and who uses it.
func (s *Store) Info(context.Context) (store.Info, error) {
	if err := s.enter(); err != nil {
		return store.Info{}, err
	}
	defer s.leave()
	info := store.Info{
		Driver: "memory", Database: s.data.database, Schema: schema,
		Durability: "nothing: it is lost with the process",
		Runs:       int64(len(s.data.runs)), Unrouted: int64(len(s.data.allUnrouted())),
		Owed: int64(len(s.data.owed)),
	}
	if s.data.lease > 0 {
		info.Now = stored(time.Now())
	}
	owned := map[journal.EngineID]int64{}
	for _, r := range s.data.byNumber {
		if r.isOpen() {
			owned[r.head.Owner]++
		}
	}
	for id := range s.data.joined {
		if e, ok := s.data.engines[id+1]; ok {
			e.Expired, e.Runs = s.data.isDead(&e), owned[e.ID]
			info.Engines = append(info.Engines, e)
		}
	}
	return info, nil
}

// fence says whether the engine may still write.
func (d *data) fence(engine journal.EngineID) error {
	if _, ok := d.engines[engine]; !ok {
		return store.ErrFenced
	}
	return nil
}
