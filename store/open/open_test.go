package open_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/place"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/open"
	"github.com/perdure/perdure/store/remote"
	"github.com/perdure/perdure/store/sqlite"
)

func TestAStoreIsOpenedByItsName(t *testing.T) {
	dir := t.TempDir()
	for name, is := range map[string]func(any) bool{
		"memory:":                              isMemory,
		"sqlite:" + filepath.Join(dir, "a.db"): isSQLite,
		filepath.Join(dir, "b.db"):             isSQLite,
	} {
		s, err := open.Store(t.Context(), name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !is(s) {
			t.Errorf("%s is a %T", name, s)
		}
		if _, err := perdure.New(s, perdure.Options{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func isMemory(s any) bool { _, ok := s.(*memory.Store); return ok }

func isSQLite(s any) bool { _, ok := s.(*sqlite.Store); return ok }

func TestAStoreThatDoesNotOpenSaysWhy(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, want := range map[string]struct {
		code journal.Code
		has  string
	}{
		"":                             {journal.CodeInvalid, "empty"},
		"mysql://a@b/c":                {journal.CodeInvalid, "there is no store mysql"},
		"http://shop:secret@127.0.0.1": {journal.CodeInvalid, "PERDURE_TOKEN"},
		"http://127.0.0.1:1":           {journal.CodeUnavailable, "perdure serve --addr"},
		"sqlite:":                      {journal.CodeInvalid, "no name"},
		"postgres://shop:secret@127.0.0.1:1/shop": {
			journal.CodeUnavailable, "postgres://shop:***@127.0.0.1:1/shop",
		},
	} {
		s, err := open.Store(ctx, name)
		if err == nil {
			s.Close()
		}
		if journal.CodeOf(err) != want.code || !strings.Contains(err.Error(), want.has) {
			t.Errorf("%q: %v", name, err)
		}
		for _, no := range []string{"secret", "--store"} {
			if strings.Contains(fmt.Sprint(err), no) {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
}

func ExampleStore() {
	db, err := open.Store(context.Background(), "memory:") // or sqlite:orders.db, or postgres://…
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	engine, err := perdure.New(db, perdure.Options{})
	fmt.Println(engine != nil, err)
	// Output: true <nil>
}

// spec: B-16
func TestTheStoreOfAServerIsOpenedByItsAddress(t *testing.T) {
	srv := httptest.NewServer(remote.Handler(memory.New(), remote.HandlerOptions{
		Allow: func(r *http.Request, _ remote.Call) error {
			if r.Header.Get("Authorization") != "Bearer secret" {
				return remote.ErrUnauthenticated
			}
			return nil
		},
	}))
	defer srv.Close()
	t.Setenv(place.TokenFileEnv, "")
	t.Setenv(place.TokenEnv, "")
	if _, err := open.Store(t.Context(), srv.URL); journal.CodeOf(err) != journal.CodeUnauthorised {
		t.Errorf("without a token: %v", err)
	}
	t.Setenv(place.TokenEnv, "secret")
	s, err := open.Store(t.Context(), srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, ok := s.(*remote.Store); !ok {
		t.Errorf("%T", s)
	}
}
