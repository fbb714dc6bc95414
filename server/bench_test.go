package server_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/server"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/store/storetest"
)

// BenchmarkReads measures reads over HTTP of a database with many runs, on SQLite: a run, and pages
// of lists. The variable PERDURE_LIST_RUNS is the number of runs.
func BenchmarkReads(b *testing.B) {
	runs, _ := strconv.Atoi(os.Getenv("PERDURE_LIST_RUNS"))
	db, err := sqlite.Open(filepath.Join(b.TempDir(), "runs.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	if _, err := storetest.Fill(b.Context(), db, max(runs, 20_000)); err != nil {
		b.Fatal(err)
	}
	c, err := perdure.NewClient(b.Context(), db)
	if err != nil {
		b.Fatal(err)
	}
	ids := idsOf(b, c)
	w := served(b, c, db)
	for _, read := range []struct {
		name string
		path func() string
	}{
		{"run", func() string { return "/executions/" + ids[rand.IntN(len(ids))] }},
		{"newest", func() string { return "/executions?limit=50" }},
		{"failed", func() string { return "/executions?limit=50&status=FAILED" }},
		{"open", func() string { return "/executions?limit=50&open=true" }},
		{"filter", func() string {
			return "/executions?limit=50&filter=status%3Dfailed+since%3D24h"
		}},
	} {
		b.Run(read.name, func(b *testing.B) {
			took := make([]time.Duration, 0, b.N)
			for b.Loop() {
				began := time.Now()
				if status, text := get(b, w+api+read.path()); status != 200 {
					b.Fatal(status, text)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-p99")
		})
	}
}

// idsOf returns the IDs of some of the runs, from all of their history.
func idsOf(b *testing.B, c *perdure.Client) (ids []string) {
	for q := (perdure.Query{Limit: 1000}); len(ids) < 10_000; {
		heads, next, err := c.List(b.Context(), q)
		if err != nil {
			b.Fatal(err)
		}
		for _, h := range heads {
			ids = append(ids, string(h.ID))
		}
		if q.After = next; next.IsZero() {
			break
		}
	}
	return ids
}

// served serves the API, and returns its address.
func served(b *testing.B, c perdure.Caller, db *sqlite.Store) string {
	s, err := server.New(c, db, server.Options{
		Logger: slog.New(slog.DiscardHandler), Feed: feed, Audit: func(server.Act) {},
	})
	if err != nil {
		b.Fatal(err)
	}
	return listen(b, s)
}

var feed = &server.Feed{}

func listen(b *testing.B, s *server.Server) string {
	h := server.HTTPServer(s)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = h.Serve(l) }()
	b.Cleanup(func() { _ = h.Close() })
	return "http://" + l.Addr().String()
}

func get(b *testing.B, url string) (int, string) {
	answer, err := http.Get(url) //nolint:noctx // of a benchmark
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		b.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// BenchmarkStarts measures starts over HTTP by 64 callers, on SQLite with a sync in each commit,
// while 200 callers follow a run each.
func BenchmarkStarts(b *testing.B) {
	db, err := sqlite.Open(filepath.Join(b.TempDir(), "runs.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	engine, err := perdure.New(db, perdure.Options{
		Logger: slog.New(slog.DiscardHandler), Observers: []observe.Observer{feed.Observer()},
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := engine.Register(greet, waiting); err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx) }()
	defer func() {
		stop()
		<-done
	}()
	w := served(b, engine, db)
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = 100
	for _, live := range []int{0, 200} {
		b.Run(fmt.Sprint("live=", live), func(b *testing.B) { starts(b, w, live) })
	}
}

func starts(b *testing.B, w string, live int) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var open sync.WaitGroup
	for i := range live {
		id := fmt.Sprintf("live-%d-%d", b.N, i)
		post(b, w+api+"/workflows/waiting/start", `{"id":"`+id+`"}`)
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, w+api+"/executions/"+id+
			"/events", nil)
		if err != nil {
			b.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		open.Go(func() {
			_, _ = io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
		})
	}
	b.ResetTimer()
	var callers sync.WaitGroup
	var next atomic.Int64
	for range 64 {
		callers.Go(func() {
			for next.Add(1) <= int64(b.N) {
				post(b, w+api+"/workflows/greet/start", `{"input":"ada"}`)
			}
		})
	}
	callers.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "starts/s")
	cancel()
	open.Wait()
}

func post(b *testing.B, url, body string) {
	answer, err := http.Post(url, "application/json", strings.NewReader(body)) //nolint:noctx // as above
	if err != nil {
		b.Error(err)
		return
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != 201 {
		b.Error(answer.Status, err)
	}
}
