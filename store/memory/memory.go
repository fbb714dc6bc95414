// Package memory keeps runs in memory, for tests, examples and benchmarks. It is also the reference
// for the behaviour of a store: one lock, maps and slices, and nothing clever. Other drivers are
// compared with it.
//
// A store from [New] is for one engine at a time. The engine counts as expired when its handle is
// closed. A store from [NewShared] is for many engines, each with a handle of its own, with leases
// by the clock of this process.
//
// The store never shares its data with a caller in a way that the caller could change, with one
// exception: payloads are not copied. Entry.Data is immutable from the moment when the store gets
// it, as everywhere in this module.
package memory

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// schema is the version of the schema that Info returns. There is no other version, since nobody
// can reopen the store with another version of this package.
const schema = 1

// A Store is a [store.Store] in memory. It is one handle on its data. The data stays when the
// handle is closed; Beside and Reopen return further handles on it.
type Store struct {
	data   *data
	closed bool // guarded by data.mu
}

var (
	_ store.Store   = (*Store)(nil)
	_ store.Watcher = (*Store)(nil)

	_ store.SlotReader = (*Store)(nil)
)

// data is the content of one database, which all its handles share.
type data struct {
	mu       sync.Mutex
	database string
	// lease is the lease of an engine; 0 for a store for one engine.
	lease    time.Duration
	runs     map[journal.Number]*run
	byNumber []*run            // in ascending order
	byAge    []*run            // in the order of their creation
	gone     []*run            // purged runs of which rows are left
	byID     map[string][]*run // by workflow ID, in order of creation
	due      map[string]*queue // by workflow: runs that may be claimed
	// mail is a set of runs. It contains all runs with messages that their engine was not given.
	mail       map[*run]bool
	ordered    map[*run]bool          // contains all runs with an order that no owner has seen
	known      map[sent]*message      // all messages with a sender's ID
	waiting    map[string][]*unrouted // by workflow ID, in order of their numbers
	unrouted   int64                  // the number of the last unrouted message
	outbox     map[int64]outboxEntry  // by number
	lastOutbox int64
	spilled    map[journal.Number][]byte
	limits     limits
	settings   map[settingKey]store.Setting
	revision   int64 // of the last setting
	engines    map[journal.EngineID]store.Engine
	joined     journal.EngineID // the last engine that joined or reserved an ID
	// holder is the handle whose engine has not left, in a store for one engine.
	holder   *Store
	watchers map[*watcher]bool
	commits  int64     // counts groups
	clock    time.Time // the latest Now of a group or a Leave
}

// New returns an empty store for one engine at a time. It has an identity of its own.
func New() *Store { return NewShared(0) }

// NewShared returns an empty store for many engines. An engine that does not renew its lease in
// time expires. A lease of 0 makes it a store for one engine.
func NewShared(lease time.Duration) *Store {
	return &Store{data: &data{
		database: store.NewIdentity(),
		lease:    lease,
		runs:     map[journal.Number]*run{},
		byID:     map[string][]*run{},
		due:      map[string]*queue{},
		mail:     map[*run]bool{},
		ordered:  map[*run]bool{},
		known:    map[sent]*message{},
		waiting:  map[string][]*unrouted{},
		outbox:   map[int64]outboxEntry{},
		spilled:  map[journal.Number][]byte{},
		limits:   newLimits(),
		settings: map[settingKey]store.Setting{},
		engines:  map[journal.EngineID]store.Engine{},
		watchers: map[*watcher]bool{},
	}}
}

// Beside returns another handle on the same data, as another process would have it.
func (s *Store) Beside() *Store { return &Store{data: s.data} }

// Reopen closes the handle and returns another one on the same data, as a new process would have
// it. In a store for one engine, an engine that did not leave has then expired. In a store for
// many, it expires only when its lease has passed.
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

// enter locks the data for one call. If it returns nil, the caller must unlock the data with leave.
func (s *Store) enter() error {
	s.data.mu.Lock()
	if s.closed {
		s.data.mu.Unlock()
		return store.ErrClosed
	}
	return nil
}

func (s *Store) leave() { s.data.mu.Unlock() }

// Info returns facts about the store and its engines.
func (s *Store) Info(context.Context) (store.Info, error) {
	if err := s.enter(); err != nil {
		return store.Info{}, err
	}
	defer s.leave()
	info := store.Info{
		Driver: "memory", Database: s.data.database, Schema: schema,
		Durability: "nothing: it is lost with the process",
		Runs:       int64(len(s.data.runs)), Unrouted: int64(len(s.data.allUnrouted())),
		Outbox:   int64(len(s.data.outbox)),
		Settings: allSettings(s.data),
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
			e.Workflows, e.Loops = slices.Clone(e.Workflows), slices.Clone(e.Loops)
			info.Engines = append(info.Engines, e)
		}
	}
	return info, nil
}

// fence returns an error if the engine may not write any more.
func (d *data) fence(engine journal.EngineID) error {
	if _, ok := d.engines[engine]; !ok {
		return store.ErrFenced
	}
	return nil
}
