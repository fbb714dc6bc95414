// Package open opens the store that a text names, so that a program gets from SQLite to
// PostgreSQL by its configuration alone:
//
//	db, err := open.Store(ctx, os.Getenv("PERDURE_STORE"))
//
// It imports every driver. A program that needs one only imports that one: store/memory,
// store/sqlite or store/postgres.
package open

import (
	"context"

	"github.com/perdure/perdure/internal/place"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// Store opens the named store for an engine. It makes the store if there is none, and migrates it.
// The name has the form of the option --store of the command line:
//
//   - postgres://USER@HOST/DATABASE, with the settings of PostgreSQL after the ?, and Perdure's own
//     settings lease=10s, pooler=on and unsafe=on;
//   - sqlite:FILE, or the file alone;
//   - memory: for a store that ends with the process.
//
// An error has a hint, and shows no password. Its code is invalid for a name that is not valid, and
// unavailable or corrupt for a store that does not open. The caller closes the store.
func Store(ctx context.Context, name string) (store.Store, error) {
	p, err := place.Parse("", name)
	if err != nil {
		return nil, err
	}
	if p.Kind == place.Memory {
		return memory.New(), nil
	}
	return p.Open(ctx, place.Engine)
}
