package codec_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"flag"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/perdure/perdure/codec"
	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/internal/testpg/farm"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/postgres"
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
	return data, nil
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
			run := storetest.RunLight
			if name == "sealed" {
				run = storetest.Run
			}
			run(t, func(*testing.T) storetest.Database {
				s := memory.New()
				return wrapped(storetest.Database{Open: func() (store.Store, error) {
					s = s.Reopen()
					return s, nil
				}}, c)
			})
		})
	}
	t.Run("shared", func(t *testing.T) {
		storetest.RunLight(t, func(*testing.T) storetest.Database {
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
	storetest.RunLight(t, func(t *testing.T) storetest.Database {
		path := filepath.Join(t.TempDir(), "runs.db")
		return wrapped(storetest.Database{
			Open: func() (store.Store, error) { return sqlite.Open(path) },
		}, c)
	})
}

// spec: B-19
func TestConformanceInTransactions(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a while")
	}
	c := counted{sealing(t, "k")}
	storetest.RunCommits(t, func(t *testing.T) storetest.Database {
		path := filepath.Join(t.TempDir(), "runs.db")
		db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(path)+
			"?_txlock=immediate&_pragma=busy_timeout(30000)")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		d := wrapped(storetest.Database{
			Open: func() (store.Store, error) { return sqlite.Open(path) },
		}, c)
		open := d.Open
		d.Open = func() (store.Store, error) {
			s, err := open()
			if err != nil {
				return nil, err
			}
			return storetest.Within(s, func(ctx context.Context) (storetest.Tx, error) {
				tx, err := db.BeginTx(ctx, nil)
				if err != nil {
					return storetest.Tx{}, err
				}
				return storetest.Tx{Handle: tx, Commit: tx.Commit, Rollback: tx.Rollback}, nil
			}), nil
		}
		return d
	})
}

// The codec is the same on each store, and SQLite has all rows: PostgreSQL has a quarter of them,
// each time other ones.
//
// spec: B-19
func TestConformanceOnPostgreSQL(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	c := counted{sealing(t, "k")}
	server := testpg.Start(t, testpg.Setting("fsync", "off"))
	f := farm.Of(t, server.URL).Cleared()
	fresh := func(t *testing.T) storetest.Database {
		url := f.URL(t)
		return wrapped(storetest.Database{
			Open: func() (store.Store, error) {
				return postgres.OpenWith(t.Context(), url, postgres.Options{Unsafe: true})
			},
			Lapse: func(engine journal.EngineID) error {
				return f.Execute(url, "update perdure.engines set leased = clock_timestamp() - "+
					"interval '1 second' where id = $1", int64(engine))
			},
			Pass: func(by time.Duration) error {
				return errors.Join(
					f.Execute(url, `update perdure.limits set "full" = "full" - $1, clock = clock - $1`,
						int64(by)),
					f.Execute(url, "update perdure.slots set due = due - $1", int64(by)))
			},
		}, c)
	}
	storetest.RunShared(t, cmp.Or(*seed, rand.Uint64()),
		map[string]func(t *testing.T) storetest.Database{"PostgreSQL": fresh})
}

var seed = flag.Uint64("seed", 0, "of the rows on PostgreSQL; 0 is another each time")
