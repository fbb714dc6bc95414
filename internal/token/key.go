package token

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// SettingKind is the kind of the settings that keep the keys. The name of a setting is the ID of
// its key. Nothing shows a setting of this kind.
const SettingKind = store.TokenKey

// secretSize is the size of a secret in bytes: that of the hash.
const secretSize = 32

// A Key signs tokens. It prints as its ID, whatever the verb is.
type Key struct {
	id     string
	secret []byte
	made   time.Time

	by, reason string
}

// ID returns the name of the key, which each of its tokens has.
func (k Key) ID() string { return k.id }

// Made returns when the key was made.
func (k Key) Made() time.Time { return k.made }

// By returns who has made the key.
func (k Key) By() string { return k.by }

// Reason returns why the key was made.
func (k Key) Reason() string { return k.reason }

// Format writes the key without its secret.
func (k Key) Format(f fmt.State, _ rune) { fmt.Fprint(f, "key ", k.id) }

// Keys are the keys of a database, from the oldest to the newest.
type Keys []Key

// NewKey returns a random key.
func NewKey() Key {
	k := Key{id: store.NewIdentity(), secret: make([]byte, secretSize), made: time.Now()}
	rand.Read(k.secret) // it never fails
	return k
}

// keptKey is a key as its setting has it.
type keptKey struct {
	Secret []byte `json:"secret"`
}

// Load returns the keys of a database. It returns none, and makes none, before the first token.
func Load(ctx context.Context, f *kernel.FrontEnd) (Keys, error) {
	all, err := kernel.Settings(ctx, f, SettingKind)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b store.Setting) int { return int(a.Revision - b.Revision) })
	var keys Keys
	for _, s := range all {
		if len(s.Value) == 0 {
			return nil, &journal.Error{
				Code: journal.CodeUnauthorised, Op: "keys of tokens",
				Message: "the server keeps them from this caller",
				Hint:    "use a token of a role that may administer",
			}
		}
		var kept keptKey
		if json.Unmarshal(s.Value, &kept) != nil || len(kept.Secret) != secretSize {
			continue // it verifies nothing; a newer one signs
		}
		keys = append(keys, Key{s.Name, kept.Secret, s.At, s.By, s.Reason})
	}
	return keys, nil
}

// Ensure returns the keys of a database, of which there is at least one then. The last one signs.
func Ensure(ctx context.Context, f *kernel.FrontEnd) (Keys, error) {
	keys, err := Load(ctx, f)
	if err != nil || len(keys) > 0 {
		return keys, err
	}
	if err := add(ctx, f, "perdure", "the first token"); err != nil {
		return nil, err
	}
	if keys, err = Load(ctx, f); err == nil && len(keys) == 0 {
		err = &journal.Error{
			Code: journal.CodeUnavailable, Op: "keys of tokens",
			Message: "the new key was removed at once", Hint: "try again",
		}
	}
	return keys, err
}

// Rotate adds a key, which signs from then on. The older ones verify until they are revoked.
func Rotate(ctx context.Context, f *kernel.FrontEnd, by, reason string) error {
	return add(ctx, f, by, reason)
}

// Revoke removes a key: its tokens are of no use then. It does nothing if there is no such key.
func Revoke(ctx context.Context, f *kernel.FrontEnd, id, by, reason string) error {
	keys, err := Load(ctx, f)
	if err != nil || !slices.ContainsFunc(keys, func(k Key) bool { return k.id == id }) {
		return err
	}
	return kernel.PutSetting(ctx, f, "revoke a key of tokens", store.Setting{
		Kind: SettingKind, Name: id, By: by, Reason: reason,
	})
}

func add(ctx context.Context, f *kernel.FrontEnd, by, reason string) error {
	k := NewKey()
	value, err := json.Marshal(keptKey{k.secret})
	if err != nil {
		return err
	}
	return kernel.PutSetting(ctx, f, "make a key of tokens", store.Setting{
		Kind: SettingKind, Name: k.id, Value: value, By: by, Reason: reason,
	})
}

// Make returns the text of a token, signed with the newest key of the database.
func Make(ctx context.Context, f *kernel.FrontEnd, c Claims) (string, error) {
	keys, err := Ensure(ctx, f)
	if err != nil {
		return "", err
	}
	return Sign(keys[len(keys)-1], c), nil
}

// MakeInStep does the same in the body of a step.
func MakeInStep(ctx context.Context, c Claims) (string, error) {
	f, err := FrontEndOf(ctx)
	if err != nil {
		return "", err
	}
	return Make(ctx, f, c)
}

// Check returns the claims of a token for that purpose. See [Verify] for its errors.
func Check(ctx context.Context, f *kernel.FrontEnd, purpose, text string) (Claims, error) {
	keys, err := Load(ctx, f)
	if err != nil {
		return Claims{}, err
	}
	return Verify(keys, purpose, text, f.Now())
}

// FrontEndOf returns the front end of the engine that executes the step of ctx. Elsewhere it
// returns an error of code misuse.
func FrontEndOf(ctx context.Context) (*kernel.FrontEnd, error) {
	owner, err := kernel.OwnerOf(ctx)
	if err != nil {
		return nil, err
	}
	return owner.(interface{ Sealed() *sealed.Client }).Sealed().FrontEnd, nil
}
