package codec_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/perdure/perdure/codec"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/store/storetest"
)

// keysOf returns keys with those IDs. Each ID has the same secret in every call.
func keysOf(t testing.TB, ids ...string) codec.Keys {
	t.Helper()
	text := ""
	for _, id := range ids {
		secret := make([]byte, 32)
		copy(secret, id)
		text += id + ":" + base64Of(secret) + "\n"
	}
	keys, err := codec.ParseKeys(text)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// sealing returns a codec that encrypts with the first of the keys, and compresses what has 64
// bytes or more.
func sealing(t testing.TB, ids ...string) codec.Codec {
	return codec.New(codec.Options{Keys: keysOf(t, ids...), CompressFrom: 64})
}

// counted is a codec that does not compress what has 16 kB or more. Some checks of the contract
// count the bytes of a store by the payloads that they give it, which are of that size.
type counted struct{ codec.Codec }

func (c counted) Encode(data, place []byte) ([]byte, error) {
	if len(data) < 16<<10 {
		return c.Codec.Encode(data, place)
	}
	head := append([]byte(codec.Prefix), 0)
	return append(head, data...), nil
}

// wrapped returns the database of a driver with a codec around each handle.
func wrapped(db storetest.Database, c codec.Codec) storetest.Database {
	open := db.Open
	db.Open = func() (store.Store, error) {
		s, err := open()
		if err != nil {
			return nil, err
		}
		return codec.Wrap(context.Background(), s, c)
	}
	return db
}

// spec: B-19
func TestConformance(t *testing.T) {
	codecs := map[string]codec.Codec{
		"sealed":     codec.New(codec.Options{Keys: keysOf(t, "k"), CompressFrom: -1}),
		"compressed": counted{codec.New(codec.Options{CompressFrom: 1})},
	}
	for name, c := range codecs {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(*testing.T) storetest.Database {
				s := memory.New()
				return wrapped(storetest.Database{Open: func() (store.Store, error) {
					s = s.Reopen()
					return s, nil
				}}, c)
			})
		})
	}
	t.Run("shared", func(t *testing.T) {
		storetest.Run(t, func(*testing.T) storetest.Database {
			s := memory.NewShared(time.Hour)
			return wrapped(storetest.Database{
				Open: func() (store.Store, error) { return s.Beside(), nil }, Lapse: s.Lapse,
			}, codecs["sealed"])
		})
	})
}

// spec: B-19
func TestConformanceOnSQLite(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a while")
	}
	c := counted{sealing(t, "k")}
	storetest.Run(t, func(t *testing.T) storetest.Database {
		path := filepath.Join(t.TempDir(), "runs.db")
		return wrapped(storetest.Database{
			Open: func() (store.Store, error) { return sqlite.Open(path) },
		}, c)
	})
}
