package howto

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/perduretest"
)

func decide(env *perduretest.Env, user, role string, form url.Values) int {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetPathValue("run", "a")
	Decide(env.Engine(), user, role)(w, r)
	return w.Code
}

func TestAManagerGrantsADiscount(t *testing.T) {
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, Discount, Request{"o-1", 30}, perdure.ID("a"))
		env.Settle()
		yes := url.Values{"answer": {"yes"}, "data": {`{"percent":20}`}}
		for _, c := range []struct {
			user, role string
			form       url.Values
			want       int
		}{
			{"ada", "clerk", yes, http.StatusForbidden},
			{"ada", "manager", url.Values{"answer": {"yes"}, "data": {`{}`}}, 400},
			{"ada", "manager", yes, http.StatusOK},
			{"bob", "manager", url.Values{"answer": {"no"}}, http.StatusConflict},
		} {
			if got := decide(env, c.user, c.role, c.form); got != c.want {
				t.Errorf("%s as %s: %d, want %d", c.user, c.role, got, c.want)
			}
		}
		run.Returns(`granted: {"percent":20}`)
	}, Discount)
}

func TestADirectorDecidesAfterTwoDays(t *testing.T) {
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, Discount, Request{"o-1", 30}, perdure.ID("a"))
		env.Settle()
		no := url.Values{"answer": {"no"}}
		if got := decide(env, "cy", "director", no); got != http.StatusForbidden {
			t.Error(got)
		}
		env.Sleep(2 * day)
		if got := decide(env, "cy", "director", no); got != http.StatusOK {
			t.Error(got)
		}
		run.Returns("rejected by cy")
	}, Discount)
}

func TestNobodyDecides(t *testing.T) {
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, Discount, Request{"o-1", 30})
		env.Sleep(5 * day)
		run.Returns("nobody has decided")
	}, Discount)
}

func TestTwoOfThreeDecide(t *testing.T) {
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, Large, Request{"o-1", 60}, perdure.ID("a"))
		env.Settle()
		for who, yes := range map[string]bool{"ada": true, "bob": false, "cy": true} {
			if _, err := approval.Decide(env.Context(), env.Engine(), "a", "large",
				approval.Decision{Approved: yes, By: who, Role: "director"}); err != nil {
				if who == "bob" && strings.Contains(err.Error(), "approved already") {
					continue
				}
				t.Error(err)
			}
		}
		run.Returns(true)
	}, Large)
}

func TestALinkDecidesOnce(t *testing.T) {
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, Discount, Request{"o-1", 30}, perdure.ID("a"))
		env.Settle()
		link := func(manager string) string {
			text, err := Link(context.Background(), env.Engine(), "a", manager)
			if err != nil {
				t.Fatal(err)
			}
			_, token, _ := strings.Cut(text, "#")
			return token
		}
		ada, bob := link("ada"), link("bob")
		if err := Press(env.Context(), env.Engine(), ada); err != nil {
			t.Error(err)
		}
		run.Returns("rejected by ada")
		if err := Press(env.Context(), env.Engine(), bob); err == nil {
			t.Error("a second decision")
		}
		time.Sleep(4 * day)
		if err := Press(env.Context(), env.Engine(), bob); err == nil ||
			err.Error() != "the link has expired" {
			t.Error(err)
		}
	}, Discount)
}
