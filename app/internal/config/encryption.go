package config

import (
	"context"
	"errors"
	"os"

	"github.com/perdure/perdure/codec"
	"github.com/perdure/perdure/store"
)

// Encryption is how payloads are kept in the database.
type Encryption struct {
	Keys     string // as [codec.ParseKeys] reads them; the first one writes
	Compress bool
}

// Wrap returns a store whose payloads are encoded like that; the store itself if nothing is asked
// for.
func (e Encryption) Wrap(ctx context.Context, db store.Store) (store.Store, error) {
	if e.Keys == "" && !e.Compress {
		return db, nil
	}
	o := codec.Options{CompressFrom: -1}
	if e.Compress {
		o.CompressFrom = 0
	}
	if e.Keys != "" {
		keys, err := codec.ParseKeys(e.Keys)
		if err != nil {
			return nil, refuse("encryption.keys is not valid: "+err.Error(), "")
		}
		o.Keys = keys
	}
	return codec.Wrap(ctx, db, codec.New(o))
}

// EncryptionOf returns what the environment says, for a command that opens the database itself.
func EncryptionOf() (Encryption, error) {
	text, set := os.LookupEnv(byName["encryption.keys"].Env)
	keys, err := secret(text)
	if err == nil && set && keys == "" {
		err = errors.New("the variable is set, and empty")
	}
	if err != nil {
		return Encryption{}, refuse("encryption.keys cannot be read: "+err.Error(), "")
	}
	return Encryption{Keys: keys}, nil
}
