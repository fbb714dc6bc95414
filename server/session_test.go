package server_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/server"
	"github.com/perdure/perdure/server/auth"
)

// login begins a session, and returns its cookie.
func (w *world) login(token string, headers ...string) *http.Cookie {
	w.t.Helper()
	r, err := http.NewRequest("POST", w.url()+api+"/session",
		strings.NewReader(`{"token":"`+token+`"}`))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if w.cookie != nil {
		r.AddCookie(w.cookie)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := w.client().Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	if all := answer.Cookies(); len(all) == 1 && answer.StatusCode == 200 {
		return all[0]
	}
	w.t.Fatal(answer.Status, answer.Cookies())
	return nil
}

// A page that nobody looks at reads by itself, and its session ends all the same.
//
// spec: P-10, B-18
func TestAnUnattendedRequestKeepsNoSessionAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, setting{piped: true, Options: server.Options{Authenticator: people(t)}})
		w.cookie = w.login(viewerToken)
		read := func(want int, after time.Duration, headers ...string) {
			t.Helper()
			time.Sleep(after)
			if got, text := w.ask("GET", api+"/executions", "", headers...); got != want {
				t.Errorf("status %d, want %d: %s", got, want, text)
			}
		}
		read(200, 7*time.Hour)
		for range 11 {
			read(200, time.Hour, "Perdure-Unattended", "1")
		}
		read(401, 2*time.Hour)
	})
}

// spec: P-10, B-18
func TestASessionLivesForItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, setting{piped: true, Options: server.Options{Authenticator: people(t)}})
		me := func(want int, after time.Duration) {
			t.Helper()
			time.Sleep(after)
			w.want(want, "GET", api+"/session", "")
		}
		w.cookie = w.login(viewerToken)
		me(200, 11*time.Hour)
		me(200, 11*time.Hour)
		me(401, 13*time.Hour) // without a request for too long
		w.cookie = w.login(viewerToken)
		for range 15 {
			me(200, 11*time.Hour)
		}
		me(401, 11*time.Hour) // a week is over
	})
}

// A page that shows live events keeps no session alive, also if it asks for them again: nobody may
// be there.
//
// spec: P-10, B-18
func TestALiveStreamKeepsNoSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, setting{piped: true, Options: server.Options{Authenticator: people(t)}})
		w.cookie = w.login(viewerToken)
		over := make(chan bool, 2)
		for range 2 {
			stream := w.follow(t.Context(), api+"/events", "")
			go func() {
				stream.rest()
				over <- true
			}()
			time.Sleep(6*time.Hour - time.Minute)
		}
		if len(over) > 0 {
			t.Error("a stream has ended before its session")
		}
		time.Sleep(3 * time.Minute)
		if len(over) != 2 {
			t.Errorf("%d of 2 streams have ended with their session", len(over))
		}
		w.want(401, "GET", api+"/session", "")
	})
}

// spec: P-10, B-18
func TestASessionIsOfOneLogin(t *testing.T) {
	tokens := people(t)
	w := begin(t, server.Options{Authenticator: tokens})
	planted := &http.Cookie{Name: auth.CookieName, Value: "planted"}
	w.cookie = planted
	first := w.login(operatorToken)
	if first.Value == planted.Value || len(first.Value) < 40 {
		t.Error("the value of the cookie is", first.Value)
	}
	w.want(401, "GET", api+"/session", "") // with the planted one
	w.cookie = first
	if me := w.want(200, "GET", api+"/session", ""); me["session"] != true ||
		me["name"] != "oskar" || me["role"] != "operator" {
		t.Error(me)
	}
	second := w.login(operatorToken) // ends the first one
	w.want(401, "GET", api+"/session", "")
	w.cookie = second
	w.want(200, "GET", api+"/session", "")
	// another role of the credential is that of its sessions
	tokens.Set([]auth.Credential{
		{Name: "oskar", Role: auth.Viewer, Hash: auth.Hash(operatorToken)},
	})
	if me := w.want(200, "GET", api+"/session", ""); me["role"] != "viewer" {
		t.Error(me)
	}
	w.want(403, "POST", api+"/workflows/greet/start", "", "Sec-Fetch-Site", "same-origin")
	w.want(403, "DELETE", api+"/session", "") // no browser leaves out where it comes from
	w.want(204, "DELETE", api+"/session", "", "Sec-Fetch-Site", "same-origin")
	w.want(401, "GET", api+"/session", "")
	tokens.Set(nil)
	w.cookie = first
	w.want(401, "GET", api+"/session", "")
}

// spec: P-10, B-18
func TestTheCookieOfASessionIsGuarded(t *testing.T) {
	w := begin(t, server.Options{Authenticator: people(t)})
	for proto, secure := range map[string]bool{"": false, "http": false, "https": true} {
		c := w.login(viewerToken, "X-Forwarded-Proto", proto)
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" ||
			c.Secure != secure || c.Domain != "" || c.MaxAge <= 0 {
			t.Errorf("%q: %+v", proto, c)
		}
	}
}

// A page of another origin does nothing, with a cookie or without, and whoever may call from where.
//
// spec: P-10, B-18
func TestAForeignPageDoesNothing(t *testing.T) {
	for name, o := range map[string]server.Options{
		"session": {Authenticator: people(t)}, "same machine": {},
	} {
		t.Run(name, func(t *testing.T) {
			w := begin(t, o)
			if o.Authenticator != nil {
				w.cookie = w.login(operatorToken)
			}
			from := "http://" + w.http.Listener.Addr().String()
			for _, c := range []struct {
				headers []string
				want    int
			}{
				{[]string{"Origin", "https://evil.example"}, 403},
				{[]string{"Origin", "null"}, 403},
				{[]string{"Origin", from + ".evil.example"}, 403},
				{[]string{"Sec-Fetch-Site", "cross-site"}, 403},
				{[]string{"Sec-Fetch-Site", "same-site"}, 403},
				{[]string{"Sec-Fetch-Site", "cross-site", "Origin", from}, 403},
				{[]string{"Sec-Fetch-Site", "same-origin"}, 201},
				{[]string{"Origin", from}, 201},
				{nil, map[bool]int{true: 403, false: 201}[o.Authenticator != nil]},
			} {
				status, text := w.ask("POST", api+"/workflows/greet/start", `{"input":"a"}`,
					c.headers...)
				if status != c.want {
					t.Errorf("%v: status %d, want %d: %s", c.headers, status, c.want, text)
				}
			}
		})
	}
}

// Failed attempts are limited by where they come from. A valid token is never refused, and others
// are not either.
//
// spec: P-10, B-18
func TestFailedLoginsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, setting{piped: true, Options: server.Options{Authenticator: people(t)}})
		refused := 0
		for i := range 1000 {
			status, _ := w.ask("POST", api+"/session", `{"token":"guess-`+strconv.Itoa(i)+`"}`)
			if status == 429 {
				refused++
			} else if status != 401 {
				t.Fatal(status)
			}
		}
		if refused < 970 || refused > 990 {
			t.Errorf("%d of 1000 guesses were refused at once", refused)
		}
		w.token = "guess"
		if _, text := w.ask("GET", api+"/session", ""); !strings.Contains(text, "too_many") {
			t.Error(text)
		}
		w.token = viewerToken
		w.want(200, "GET", api+"/session", "")
		w.token = ""
		w.login(viewerToken)
		time.Sleep(time.Minute)
		w.want(401, "POST", api+"/session", `{"token":"guess"}`)
	})
}
