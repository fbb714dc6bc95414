package howto

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/codec"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

var greet = perdure.Define("greet", func(ctx context.Context, name string) (string, error) {
	return perdure.Step(ctx, "say", func(context.Context) (string, error) {
		return "hello " + name, nil
	})
})

// greeted executes a run on the store.
func greeted(t *testing.T, s store.Store) {
	t.Helper()
	engine, err := perdure.New(s, perdure.Options{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = engine.Register(greet)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx) }()
	run, err := greet.Start(ctx, engine, "Ada Lovelace")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := run.Result(ctx); err != nil || out != "hello Ada Lovelace" {
		t.Errorf("%q, %v", out, err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// isClear reports whether the name is in the files of the database.
func isClear(t *testing.T, path string) (found bool) {
	t.Helper()
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		found = found || bytes.Contains(data, []byte("Ada Lovelace"))
	}
	return found
}

// spec: B-18, B-19
func TestAnEncryptedDatabaseHasNoName(t *testing.T) {
	dir := t.TempDir()
	key, err := codec.MakeKey("2026-01")
	if err != nil {
		t.Fatal(err)
	}
	keys, path := filepath.Join(dir, "keys"), filepath.Join(dir, "shop.db")
	if err := os.WriteFile(keys, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), path, keys)
	if err != nil {
		t.Fatal(err)
	}
	greeted(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if isClear(t, path) {
		t.Error("the name is in the file")
	}
	if _, err := Open(t.Context(), path, filepath.Join(dir, "gone")); err == nil {
		t.Error("it opens without keys")
	}
}

// The application brings a codec of its own.
//
// spec: P-15, B-19
func TestACodecOfOnesOwn(t *testing.T) {
	block, err := aes.NewCipher(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []codec.Codec{nil, Boxed{aead}} {
		path := filepath.Join(t.TempDir(), fmt.Sprint(i, ".db"))
		var s store.Store
		s, err := sqlite.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if c != nil {
			if s, err = codec.Wrap(t.Context(), s, c); err != nil {
				t.Fatal(err)
			}
		}
		greeted(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if isClear(t, path) != (c == nil) {
			t.Errorf("with %T, the name is in the file: %v", c, c != nil)
		}
	}
}
