package howto

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/perduretest"
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

// Only an error that a repeated request may overcome is a 503.
func TestAnIDOfAnotherWorkflowIsAConflict(t *testing.T) {
	other := perdure.Define("other", func(ctx context.Context, _ int) (int, error) {
		return 0, perdure.Sleep(ctx, time.Hour)
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		perduretest.Start(env, other, 1, perdure.ID("1"))
		w := httptest.NewRecorder()
		(&Server{env.Engine()}).Handler().ServeHTTP(w, httptest.NewRequestWithContext(
			env.Context(), http.MethodPost, "/orders", strings.NewReader(`{"id":"1"}`)))
		if w.Code != http.StatusConflict {
			env.Errorf("%d: %s", w.Code, w.Body)
		}
	}, Fulfil, other)
}
