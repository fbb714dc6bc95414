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

// Store opens the store that name is, for an engine: it is made where there is none, and
// migrated. The name is what the command line takes as --store:
//
//   - postgres://USER@HOST/DATABASE, with the settings of PostgreSQL after the ?, and lease=10s,
//     pooler=on and unsafe=on, which are Perdure's;
//   - sqlite:FILE, or the file alone;
//   - memory: for a store that ends with the process.
//
// An error has the code invalid for a name that is not one, unavailable or corrupt for a
// store that does not open, and a hint; no password is in it. The caller closes the store.
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
