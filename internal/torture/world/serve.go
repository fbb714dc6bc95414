package world

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"

	"github.com/perdure/perdure/internal/torture/play"
)

// Handler serves the ledger to clients.
func (l *Ledger) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /call", func(w http.ResponseWriter, r *http.Request) {
		var c play.Call
		if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		n, err := l.Call(r.Context(), c)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(n)
	})
	mux.HandleFunc("POST /mended", func(w http.ResponseWriter, r *http.Request) {
		var label string
		if err := json.NewDecoder(r.Body).Decode(&label); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		mended, _ := l.Mended(r.Context(), label)
		_ = json.NewEncoder(w).Encode(mended)
	})
	mux.HandleFunc("POST /mend", func(w http.ResponseWriter, r *http.Request) {
		var labels []string
		if err := json.NewDecoder(r.Body).Decode(&labels); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := l.Mend(labels...); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(true)
	})
	return mux
}

// A Client is a world in another process.
type Client struct {
	http *http.Client
}

// Dial returns a client of the world that listens at a socket. It connects at the first call.
func Dial(socket string) *Client {
	var d net.Dialer
	return &Client{&http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 64,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, "unix", socket)
		},
	}}}
}

// Call records a call in the world.
func (c *Client) Call(ctx context.Context, call play.Call) (n int64, err error) {
	return n, c.ask(ctx, "call", call, &n)
}

// Mended reports whether a label was mended.
func (c *Client) Mended(ctx context.Context, label string) (mended bool, err error) {
	return mended, c.ask(ctx, "mended", label, &mended)
}

// Mend makes the calls with one of the labels succeed from now on.
func (c *Client) Mend(labels ...string) error {
	var ok bool
	return c.ask(context.Background(), "mend", labels, &ok)
}

func (c *Client) ask(ctx context.Context, what string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://world/"+what,
		bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the world answers %s", resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(out)
}
