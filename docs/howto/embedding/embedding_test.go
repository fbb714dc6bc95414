package howto

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure/store/sqlite"
)

func TestAServerStartsRunsAndShowsThem(t *testing.T) {
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "shop.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, db, slog.New(slog.DiscardHandler)) }()

	at := "http://" + l.Addr().String()
	for range 2 { // the client repeats its request
		r, err := http.Post(at+"/orders", "application/json",
			strings.NewReader(`{"id":"1","cents":4200}`))
		if err != nil || r.StatusCode != http.StatusAccepted ||
			r.Header.Get("Location") != "/orders/1" {
			t.Fatal(r, err)
		}
		r.Body.Close()
	}
	for body := ""; !strings.Contains(body, "COMPLETED"); {
		r, err := http.Get(at + "/orders/1")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		r.Body.Close()
		if body = string(text); err != nil || r.StatusCode != http.StatusOK {
			t.Fatal(body, err)
		}
		if strings.Contains(body, "COMPLETED") && !strings.Contains(body, `"t-1"`) {
			t.Error(body)
		}
	}
	if r, err := http.Get(at + "/orders/2"); err != nil || r.StatusCode != http.StatusNotFound {
		t.Error(r, err)
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
