package codec

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Wrap returns a store whose payloads are clear, around one whose payloads are encoded. It has the
// abilities of that store, as [store.AbilitiesOf] returns them. It asks the store for its identity,
// to which the payloads are bound. Close closes the store below.
//
// Whoever uses the database has the same codec: engines, clients, the command line. What was
// written before without a codec is read as it is, and is not encoded anew.
func Wrap(ctx context.Context, s store.Store, c Codec) (store.Store, error) {
	if c == nil {
		return nil, errors.New("codec: there is no codec")
	}
	info, err := store.Brief(ctx, s) // its settings stay as they are
	if err != nil {
		return nil, fmt.Errorf("codec: the identity of the store: %w", err)
	}
	return &wrapped{below: s, codec: c, database: info.Database}, nil
}

// wrapped is a store around another one.
type wrapped struct {
	below    store.Store
	codec    Codec
	database string
}

var _ store.Decorator = (*wrapped)(nil)

// Commit is [store.Store.Commit].
func (s *wrapped) Commit(ctx context.Context, g *store.Group) error {
	return s.commit(g, func(g *store.Group) error { return s.below.Commit(ctx, g) })
}

// Claim is [store.Store.Claim].
func (s *wrapped) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	if take, ok := c.(store.TakeOutbox); ok {
		return s.takeOutbox(ctx, take)
	}
	claimed, err := s.below.Claim(ctx, c)
	s.decodeClaimed(&claimed)
	return claimed, err
}

// takeOutbox leaves out entries that are not readable. If there is no other on a page, it goes on
// to the next.
func (s *wrapped) takeOutbox(ctx context.Context, c store.TakeOutbox) (store.Claimed, error) {
	for {
		claimed, err := s.below.Claim(ctx, c)
		if n := len(claimed.Outbox); n > 0 {
			c.After = claimed.Outbox[n-1].Number
		}
		claimed.Outbox = s.decodeOutbox(claimed.Outbox)
		if err != nil || len(claimed.Outbox) > 0 || !claimed.More {
			return claimed, err
		}
	}
}

// Load is [store.Store.Load].
func (s *wrapped) Load(ctx context.Context, run journal.Number, r store.Range) ([]journal.Entry,
	error) {
	entries, err := s.below.Load(ctx, run, r)
	entries, unreadable := s.decodeAll(entries, r.Inbox)
	if unreadable != nil {
		err = unreadable
	}
	return entries, err
}

// Spill is [store.Store.Spill].
func (s *wrapped) Spill(ctx context.Context, engine journal.EngineID, id journal.Number,
	data []byte) error {
	if data == nil {
		data = []byte{}
	}
	encoded, err := s.codec.Encode(data, s.spillPlace(id))
	if err != nil {
		return fmt.Errorf("codec: a payload was not encoded: %w", err)
	}
	return s.below.Spill(ctx, engine, id, encoded)
}

// Purge is [store.Store.Purge].
func (s *wrapped) Purge(ctx context.Context, p store.Purge) (store.Purged, error) {
	return s.below.Purge(ctx, p)
}

// Info is [store.Store.Info].
func (s *wrapped) Info(ctx context.Context) (store.Info, error) {
	return s.decoded(s.below.Info(ctx))
}

// decoded returns a description with its settings decoded.
func (s *wrapped) decoded(info store.Info, err error) (store.Info, error) {
	if err == nil {
		err = s.decodeInfo(&info)
	}
	if err != nil {
		return store.Info{}, err
	}
	return info, nil
}

// Close is [store.Store.Close].
func (s *wrapped) Close() error { return s.below.Close() }

// Abilities implements [store.Decorator]. Those that have to do with payloads decode and encode
// them; the others are those of the store below.
func (s *wrapped) Abilities() store.Abilities {
	a := store.AbilitiesOf(s.below)
	if a.Briefer != nil {
		a.Briefer = briefer{a.Briefer, s}
	}
	if a.Counter != nil {
		a.Counter = counter{a.Counter, s}
	}
	if a.Transactor != nil {
		a.Transactor = transactor{a.Transactor, s}
	}
	return a
}

type briefer struct {
	below store.Briefer
	store *wrapped
}

// Brief implements [store.Briefer].
func (b briefer) Brief(ctx context.Context) (store.Info, error) {
	return b.store.decoded(b.below.Brief(ctx))
}

type transactor struct {
	below store.Transactor
	store *wrapped
}

// In implements [store.Transactor].
func (t transactor) In(tx any) (store.Transaction, error) {
	part, err := t.below.In(tx)
	if err != nil {
		return nil, err
	}
	return transaction{part, t.store}, nil
}

// A transaction is the part of a store in a transaction of the application.
type transaction struct {
	store.Transaction
	store *wrapped
}

// Commit implements [store.Transaction].
func (t transaction) Commit(ctx context.Context, g *store.Group) error {
	return t.store.commit(g, func(g *store.Group) error { return t.Transaction.Commit(ctx, g) })
}
