package server_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/server"
	"github.com/perdure/perdure/store/remote"
)

// A client of the store may do what its role allows, and what it has written is audited.
//
// spec: B-18, P-10
func TestAClientOfTheStoreHasItsRole(t *testing.T) {
	var mu sync.Mutex
	var acts []string
	w := begin(t, server.Options{Authenticator: people(t), Audit: func(a server.Act) {
		mu.Lock()
		defer mu.Unlock()
		acts = append(acts, a.By+" "+a.Action)
	}})
	client := func(token string) *perdure.Client {
		t.Helper()
		db, err := remote.Open(t.Context(), w.http.URL, remote.Options{Token: token})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		c, err := perdure.NewClient(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	viewer, operator, boss := client(viewerToken), client(operatorToken), client(adminToken)
	if _, err := viewer.Start(t.Context(), "greet", []byte(`"ada"`)); journal.CodeOf(
		err) != journal.CodeUnauthorised {
		t.Errorf("a viewer starts a run: %v", err)
	}
	run, err := greet.Start(t.Context(), operator, "ada", perdure.ID("g-1"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := run.Result(t.Context()); out != "Hello, ada" || err != nil {
		t.Error(out, err)
	}
	if d, err := viewer.Describe(t.Context(), "g-1"); err != nil ||
		d.Head.Status != journal.Completed {
		t.Error(d.Head, err)
	}
	if err := admin.New(operator).RotateKey(t.Context(), admin.Note{}); journal.CodeOf(
		err) != journal.CodeUnauthorised {
		t.Errorf("an operator rotates a key: %v", err)
	}
	if err := admin.New(boss).RotateKey(t.Context(), admin.Note{}); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if all := strings.Join(acts, ", "); !strings.Contains(all, "store-start") ||
		!strings.Contains(all, "store-set") || strings.Contains(all, "viewer ") {
		t.Errorf("the audit has %s", all)
	}
}
