package natsmemory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/perdure/perdure/orchestrator"
)

const (
	clock    = "clock" // the key whose message has the time of the server
	tries    = 10      // of a change, while others change the same subject
	headroom = 1024    // bytes for headers, and for what a later lock adds
)

// An entry is the value of a subject's key: its state and its lock.
type entry struct {
	Subject string             `json:"subject"`
	Parent  string             `json:"parent,omitempty"`
	Version int64              `json:"version,omitempty"`
	Token   orchestrator.Token `json:"token,omitempty"` // of the last lock
	Until   time.Time          `json:"until,omitzero"`  // when it ends; zero if it has ended
	TTL     time.Duration      `json:"ttl,omitempty"`   // of the lock that this revision has taken
	State   json.RawMessage    `json:"state,omitempty"`

	revision uint64 // 0 for none
}

// The names of keys have hashes, in the form of sha256sum: a subject may have characters that a key
// may not have, and any length.
func hash(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

func stateKey(hashed string) string { return "state." + hashed }

func childKey(parent, hashed string) string { return "child." + hash(parent) + "." + hashed }

// get returns the entry of a key; an empty one if there is none.
func (m *Memory[T]) get(ctx context.Context, key string) (*entry, error) {
	e := &entry{}
	kept, err := m.kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return e, nil
	}
	if err == nil {
		err = json.Unmarshal(kept.Value(), e)
	}
	if err != nil {
		return nil, err
	}
	e.revision = kept.Revision()
	if e.TTL > 0 { // the stamps of this revision are those of the lock
		e.Token, e.Until = orchestrator.Token(e.revision), kept.Created().Add(e.TTL)
		e.TTL = 0
	}
	return e, nil
}

// change stores what f makes of the entry of a subject, and returns the new revision. If somebody
// else has changed the entry meanwhile, nothing is stored, and f judges the new entry.
func (m *Memory[T]) change(ctx context.Context, subject string, f func(*entry) error) (uint64,
	error) {
	if err := isText(subject); err != nil {
		return 0, err
	}
	key := stateKey(hash(subject))
	for range tries {
		e, err := m.get(ctx, key)
		if err != nil {
			return 0, err
		}
		e.Subject = subject
		if err := f(e); err != nil {
			return 0, err
		}
		revision, err := m.put(ctx, key, e)
		if !errors.Is(err, jetstream.ErrKeyExists) &&
			!errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			return revision, err
		}
	}
	return 0, errBusy
}

// put stores an entry in place of the revision that was read.
func (m *Memory[T]) put(ctx context.Context, key string, e *entry) (uint64, error) {
	data, err := json.Marshal(e)
	switch {
	case err != nil:
		return 0, err
	case e.revision == 0:
		return m.kv.Create(ctx, key, data) // also if somebody has deleted the key
	}
	return m.kv.Update(ctx, key, data, e.revision)
}

// now returns the time of the server. It is not before the call.
func (m *Memory[T]) now(ctx context.Context) (time.Time, error) {
	if _, err := m.kv.Put(ctx, clock, nil); err != nil {
		return time.Time{}, err
	}
	tick, err := m.kv.Get(ctx, clock) // this one, or a later one
	if err != nil {
		return time.Time{}, err
	}
	return tick.Created(), nil
}

// adopt notes the parent of an instance, before its state is stored: a crash leaves at most a note
// of an instance without a state.
func (m *Memory[T]) adopt(ctx context.Context, e *entry, d *orchestrator.Metadata) error {
	if d == nil {
		return nil
	}
	parent, _ := d.Parent.Name()
	if parent == "" || parent == e.Parent {
		return nil
	}
	if err := isText(parent); err != nil {
		return err
	}
	e.Parent = parent
	_, err := m.kv.Put(ctx, childKey(parent, hash(e.Subject)), nil)
	return err
}

// roomy fails if the server does not take the entry, together with what later locks add to it.
func (m *Memory[T]) roomy(e *entry) error {
	size := int64(len(e.State) + 6*len(e.Subject) + 6*len(e.Parent) + headroom) // 6: \u0000
	if most := m.js.Conn().MaxPayload(); size > most {
		return fmt.Errorf("the state has %d bytes, and the server takes %d in all: "+
			"set a greater max_payload there, or keep less in the state: %w", len(e.State), most,
			nats.ErrMaxPayload)
	}
	return nil
}

// isText refuses names that JSON would change.
func isText(name string) error {
	if !utf8.ValidString(name) {
		return fmt.Errorf("the name %q is not UTF-8", name)
	}
	return nil
}
