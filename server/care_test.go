package server_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/rules"
	"github.com/perdure/perdure/server"
	"github.com/perdure/perdure/store"
)

// stopLoop lets the store say that a loop of engine 1 has stopped.
func (w *world) stopLoop(name string) {
	w.t.Helper()
	if err := kernel.PutSetting(w.t.Context(), w.engine.Sealed().FrontEnd, "stop", store.Setting{
		Kind: rules.LoopSetting, Name: rules.Loop(1, name), Value: []byte("{}"), By: "engine",
		Reason: "panic: no disk",
	}); err != nil {
		w.t.Fatal(err)
	}
}

// spec: R-35
func TestTheLoopsOfEnginesAreListedAndBeginAgain(t *testing.T) {
	w := begin(t, server.Options{Authenticator: people(t)})
	w.token = viewerToken
	w.ready()
	states := func() map[string]any {
		all := map[string]any{}
		items, _ := w.want(200, "GET", api+"/loops", "")["items"].([]any)
		for _, item := range items {
			l := item.(map[string]any)
			all[w.text(l, "name")] = fmt.Sprint(l["state"], " ", l["reason"])
			w.text(l, "last")
		}
		return all
	}
	if got := states(); got["retention"] != "running <nil>" {
		t.Error(got)
	}
	w.stopLoop("retention")
	if got := states(); got["retention"] != "stopped panic: no disk" {
		t.Error(got)
	}
	w.want(403, "POST", api+"/loops/1/retention/start", "")
	w.token = operatorToken
	w.want(404, "POST", api+"/loops/2/retention/start", "")
	w.want(200, "POST", api+"/loops/1/retention/start", "")
	if got := states(); got["retention"] != "running <nil>" {
		t.Error(got)
	}
}

// The server remembers the newest acts, and counts those that it has forgotten.
//
// spec: B-18, P-10
func TestTheNewestActsAreRemembered(t *testing.T) {
	w := begin(t, server.Options{Authenticator: people(t), Audit: func(server.Act) {}})
	acts := func(query string) (all []string, forgotten any) {
		w.token = adminToken
		got := w.want(200, "GET", api+"/audit"+query, "")
		for _, item := range got["items"].([]any) {
			a := item.(map[string]any)
			all = append(all, fmt.Sprint(a["by"], " ", a["action"], " ", a["status"]))
		}
		return all, got["forgotten"]
	}
	is := func(query string, want ...string) {
		t.Helper()
		if got, _ := acts(query); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	is("")
	w.token = operatorToken
	w.want(201, "POST", api+"/workflows/greet/start", `{"id":"g-1"}`)
	w.token = viewerToken
	w.want(403, "POST", api+"/keys/rotate", "")
	w.want(403, "GET", api+"/audit", "")
	is("", "vera rotate-key 403", "oskar start-execution 201")
	is("?by=oskar", "oskar start-execution 201")
	is("?action=rotate-key", "vera rotate-key 403")
	is("?limit=1", "vera rotate-key 403")
	is("?by=nobody")
	w.want(400, "GET", api+"/audit?limit=1001", "")
	w.token = viewerToken
	for range 1000 {
		w.want(403, "POST", api+"/keys/rotate", "")
	}
	if all, forgotten := acts("?limit=1000"); len(all) != 1000 || forgotten != 2.0 ||
		slices.Contains(all, "oskar start-execution 201") {
		t.Error(len(all), forgotten)
	}
	w.token = ""
	for range 1100 {
		w.want(204, "DELETE", api+"/session", "")
	}
	// who has no credential makes it forget nothing of others
	is("?by=vera&limit=1", "vera rotate-key 403")
	if all, forgotten := acts("?limit=1000"); len(all) != 1000 || forgotten != 102.0 ||
		all[0] != " end-session 204" {
		t.Error(len(all), forgotten, all[0])
	}
}

// spec: P-13, B-17
func TestTheConfigurationIsForAdmins(t *testing.T) {
	w := begin(t, server.Options{
		Authenticator: people(t), Configuration: []server.ConfigurationKey{{
			Name: "doctor.stale", Value: "2h", Default: "1h", From: "--stale", IsChanged: true,
		}},
	})
	w.token = operatorToken
	w.want(403, "GET", api+"/configuration", "")
	w.token = adminToken
	got := w.want(200, "GET", api+"/configuration", "")
	key := got["keys"].([]any)[0].(map[string]any)
	if w.text(key, "value") != "2h" || key["is_changed"] != true || w.text(got, "version") == "" {
		t.Error(got)
	}
	bare := begin(t, server.Options{})
	got = bare.want(http.StatusOK, "GET", api+"/configuration", "")
	if len(got["keys"].([]any)) != 0 {
		t.Error(got)
	}
}
