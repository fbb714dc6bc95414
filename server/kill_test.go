package server_test

import (
	"slices"
	"testing"

	"github.com/perdure/perdure/server"
)

// A server is killed only where it offers that, and only by those who may act. The act is written
// before the process dies, and the caller has the whole answer by then.
//
// spec: B-16, B-18
func TestAServerIsKilledOnlyWhereItOffersThat(t *testing.T) {
	w := begin(t, server.Options{})
	w.want(404, "POST", api+"/process/kill", "")
	if who := w.want(200, "GET", api+"/session", ""); who["kills"] != nil {
		t.Error(who)
	}

	var acts []string
	dead := make(chan []string, 1)
	never := make(chan struct{})
	defer close(never)
	w = begin(t, server.Options{
		Authenticator: people(t),
		Audit:         func(a server.Act) { acts = append(acts, a.Action) },
		Kill: func() {
			dead <- slices.Clone(acts)
			<-never // what comes after the handler does not happen
		},
	})
	w.token = viewerToken
	w.want(403, "POST", api+"/process/kill", "")
	w.token = operatorToken
	if who := w.want(200, "GET", api+"/session", ""); who["kills"] != true {
		t.Error(who)
	}
	if got := w.want(202, "POST", api+"/process/kill", ""); got["pid"] == 0.0 {
		t.Error(got)
	}
	if got := <-dead; !slices.Equal(got, []string{"kill-process", "kill-process"}) {
		t.Errorf("the audit has %v when the process dies", got)
	}
}
