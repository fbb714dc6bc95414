package config

import (
	"context"
	"strings"

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

// A Database is the part of a configuration that a command needs which opens the database itself.
type Database struct {
	Store      string // empty if none is set
	Encryption Encryption
}

// LoadDatabase reads the keys of a [Database], as [Load] does. The file may be empty. It refuses
// keys of the file that do not exist, and does not look at the values of others.
func LoadDatabase(file string, environment []string) (Database, error) {
	found := map[string]source{}
	if file != "" {
		if err := readFile(file, found); err != nil {
			return Database{}, err
		}
	}
	var c Config
	for _, name := range []string{"store", "encryption.keys", "encryption.compress"} {
		k := byName[name]
		for _, one := range environment {
			if text, is := strings.CutPrefix(one, k.Env+"="); is {
				found[name] = source{text: text, from: k.Env}
			}
		}
		if s, is := found[name]; is {
			if err := k.load(&c, s); err != nil {
				return Database{}, err
			}
		}
	}
	return Database{c.Store, c.Encryption}, nil
}
