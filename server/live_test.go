package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/server"
	"github.com/perdure/perdure/server/auth"
)

// numbers returns the IDs of events that are entries.
func numbers(all []live) (ids []string) {
	for _, e := range all {
		if e.name == "entry" {
			ids = append(ids, e.id)
		}
	}
	return ids
}

// A stream that is cut anywhere goes on where it was cut, also with another server.
//
// spec: P-10
func TestAStreamGoesOnWhereItWasCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, setting{piped: true})
		id := w.start("greet", `{"input":"ada"}`)
		w.ended(id)
		path := api + "/executions/" + id + "/events"
		whole := w.follow(t.Context(), path, "").rest()
		if n := len(whole); n < 4 || whole[n-1].name != "end" || whole[n-2].id != fmt.Sprint(n-1) {
			t.Fatal(whole)
		}
		for cut := range len(whole) - 1 {
			again, err := server.New(w.engine, w.store, server.Options{Feed: &server.Feed{}})
			if err != nil {
				t.Fatal(err)
			}
			w.pipes.server.Handler = again
			s := w.follow(t.Context(), path, fmt.Sprint(cut))
			if got := append(numbers(whole[:cut]), numbers(s.rest())...); strings.Join(got, " ") !=
				strings.Join(numbers(whole), " ") {
				t.Errorf("cut at %d: %v", cut, got)
			}
		}
		for _, last := range []string{"x", "-1", "1.5", "99999999999999999999"} {
			if status, _ := w.ask("GET", path, "", "Last-Event-ID", last); status != 400 {
				t.Errorf("after %q: status %d", last, status)
			}
		}
		w.want(404, "GET", api+"/executions/nobody/events", "")
	})
}

// A run whose journal fills a page of entries to the last one has an end, too.
//
// spec: P-10
func TestAFullPageOfEntriesHasAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, setting{piped: true})
		count := func(steps int) int {
			id := w.start("counting", fmt.Sprintf(`{"input":%d}`, steps))
			synctest.Wait()
			s := w.follow(t.Context(), api+"/executions/"+id+"/events", "")
			w.want(200, "POST", api+"/executions/"+id+"/signal/go", `"on"`)
			all := s.rest()
			if n := len(all); n == 0 || all[n-1].name != "end" {
				t.Errorf("%d events without an end", n)
			}
			return len(numbers(all))
		}
		const page = 500
		least := count(0)
		each := count(1) - least
		if n := count((page - least) / each); n != page {
			t.Errorf("%d entries, want a full page of %d", n, page)
		}
	})
}

// spec: P-10
func TestTheStreamOfAllRunsGoesOnOrSaysThatItDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, setting{piped: true})
		path := api + "/events?kind=run+ended"
		first := w.follow(t.Context(), path, "")
		synctest.Wait()
		w.ended(w.start("greet", `{"id":"g-1","input":"a"}`))
		e, ok := first.next()
		if !ok || e.name != "notice" || !strings.Contains(e.data, "g-1") {
			t.Fatal(e)
		}
		first.close()
		w.ended(w.start("greet", `{"id":"g-2","input":"b"}`)) // while nobody looks
		second := w.follow(t.Context(), path, first.last)
		if e, _ := second.next(); e.name != "notice" || !strings.Contains(e.data, "g-2") {
			t.Error("after a cut:", e)
		}
		second.close()
		for _, last := range []string{"other-1", "x", "-", first.last + "9999"} {
			s := w.follow(t.Context(), path, last)
			if e, _ := s.next(); e.name != "reset" || e.id == "" {
				t.Errorf("after %q: %+v", last, e)
			}
			s.close()
		}
		w.want(400, "GET", api+"/events?nothing=1", "")
	})
}

// spec: P-10
func TestASilentStreamBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, setting{piped: true})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		for _, path := range []string{
			"/events?run=nobody", "/executions/" + w.start("waiting", "") + "/events",
		} {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
			s := w.follow(ctx, api+path, "")
			if s.rest(); s.beats < 4 || s.beats > 8 {
				t.Errorf("%s: %d beats in two minutes", path, s.beats)
			}
			cancel()
		}
	})
}

// A stream ends within a minute after its token or session has.
//
// spec: P-10, B-18
func TestAStreamEndsWithItsCredential(t *testing.T) {
	for _, how := range []string{"token", "session", "logout"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tokens := people(t)
				w := open(t, setting{piped: true, Options: server.Options{Authenticator: tokens}})
				w.token = operatorToken
				id := w.start("waiting", "")
				cookie, _, err := tokens.Login(operatorToken, false)
				if err != nil {
					t.Fatal(err)
				}
				if how != "token" {
					w.token, w.cookie = "", cookie
				}
				for _, path := range []string{"/executions/" + id + "/events", "/events"} {
					s := w.follow(t.Context(), api+path, "")
					time.AfterFunc(2*time.Minute, func() {
						if how == "logout" {
							r, _ := http.NewRequest("DELETE", "/", nil)
							r.AddCookie(cookie)
							tokens.Sessions.End(r, false)
							return
						}
						tokens.Set([]auth.Credential{credentials()[0]})
					})
					begun := time.Now()
					s.rest()
					if d := time.Since(begun); d < 2*time.Minute || d > 3*time.Minute {
						t.Errorf("%s ended after %v", path, d)
					}
					tokens.Set(credentials())
					if cookie, _, err = tokens.Login(operatorToken, false); err != nil {
						t.Fatal(err)
					} else if how != "token" {
						w.cookie = cookie
					}
				}
			})
		})
	}
}

// A bubble of synctest ends when all its goroutines have: none is left behind by a caller that goes
// away, or that reads no more.
//
// spec: P-10
func TestACallerWhoIsGoneLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, setting{piped: true})
		id := w.start("waiting", "")
		for _, path := range []string{"/executions/" + id + "/events", "/events"} {
			before := w.handling.Load()
			ctx, cancel := context.WithCancel(t.Context())
			w.follow(ctx, api+path, "")
			if got := w.handling.Load(); got != before+1 {
				t.Errorf("%d requests", got)
			}
			cancel()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if got := w.handling.Load(); got != before {
				t.Errorf("%s: %d requests are left", path, got)
			}
		}
		c, err := w.pipes.dial()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "GET %s/executions/%s/events HTTP/1.1\r\nHost: localhost\r\n\r\n", api, id)
		time.Sleep(time.Minute) // it reads nothing
		synctest.Wait()
		if got := w.handling.Load(); got != 0 {
			t.Errorf("%d requests are left of a caller who reads nothing", got)
		}
	})
}

// spec: P-10
func TestManyStreamsSeeTheirEnds(t *testing.T) {
	w := begin(t, server.Options{})
	const n = 200
	var all sync.WaitGroup
	for i := range n {
		id := w.start("waiting", fmt.Sprintf(`{"id":"m-%d"}`, i))
		s := w.follow(t.Context(), api+"/executions/"+id+"/events", "")
		all.Go(func() {
			defer s.close()
			if events := s.rest(); len(events) == 0 || events[len(events)-1].name != "end" {
				t.Errorf("run %d: %d events without an end", i, len(events))
			}
		})
	}
	for i := range n {
		w.want(200, "POST", fmt.Sprintf("%s/executions/m-%d/signal/go", api, i), `"on"`)
	}
	all.Wait()
}

// spec: P-10
func TestAHeadOfAStreamEnds(t *testing.T) {
	w := begin(t, server.Options{})
	for _, path := range []string{"/events", "/executions/" + w.start("waiting", "") + "/events"} {
		if status, _ := w.ask("HEAD", api+path, ""); status != 200 {
			t.Error(path, status)
		}
		for _, headers := range [][]string{
			{"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"},
		} {
			if status, _ := w.ask("GET", api+path, "", headers...); status != 403 {
				t.Error(path, headers, status)
			}
		}
	}
}
