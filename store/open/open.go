// Package open opens the store that a text names, so that a program gets from SQLite to
// PostgreSQL by its configuration alone:
//
//	db, err := open.Store(ctx, os.Getenv("PERDURE_STORE"))
//
// It imports every driver. A program that needs one only imports that one: store/memory,
// store/sqlite, store/postgres or store/remote.
package open

import (
	"context"

	"github.com/perdure/perdure/internal/place"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// Store opens the named store, for an engine unless it is that of a server. It makes the store if
// there is none, and migrates it. The name has the form of the option --store of the command line:
//
//   - postgres://USER@HOST/DATABASE, with the settings of PostgreSQL after the ?, and Perdure's own
//     settings lease=10s, pooler=on and unsafe=on;
//   - sqlite:FILE, or the file alone;
//   - memory: for a store that ends with the process;
//   - http://HOST:PORT or https://HOST for the store of a server, which is for clients: an engine
//     cannot use it. The token is in PERDURE_TOKEN, or in the file that PERDURE_TOKEN_FILE names.
//
// An error has a hint, and shows no password and no token. Its code is invalid for a name that is
// not valid, unauthorised for a server that does not let the caller in, and unavailable or corrupt
// for a store that does not open. The caller closes the store.
func Store(ctx context.Context, name string) (store.Store, error) {
	p, err := place.Parse("", name)
	if err != nil {
		return nil, err
	}
	switch p.Kind {
	case place.Memory:
		return memory.New(), nil
	case place.Server:
		return p.Open(ctx, place.Write)
	}
	return p.Open(ctx, place.Engine)
}
