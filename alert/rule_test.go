package alert_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/alert"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
)

// spec: R-31
func TestARecipientThatIsNotValidIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, alert.Workflow(alert.Options{}))
		defer w.End()
		wrong := []string{
			"", "x", "file:///etc/passwd", "ftp://example.com/", "unix:/x", "data:,x", "gopher://x",
			"javascript:alert(1)", "https:", "https://", "https:///x", "https:example.com",
			"https://user:pw@example.com/", "https://example.com#@evil.example.com",
			`https://evil.example.com\@example.com`, "https://ⓔxample.com/", "https://a b.com/",
			"https://example.com:0/", "https://example.com:22/", "https://example.com:25/",
			"https://example.com:6379/", "https://example.com:5432/", "https://example.com:70000/",
			"https://example.com:-1/", "https://example.com:/", "https://127.1/", "https://2130706433/",
			"https://0x7f000001/", "https://0177.0.0.1/", "https://1.2.3.4./",
			"https://example.com/\r\nHost: evil", "https://example.com/\xff",
			"https://example.com/" + strings.Repeat("x", 2000),
			"mailto:", "mailto:x", "mailto:a@b@c", "mailto:Ada <a@example.com>",
			"mailto:a@example.com\r\nBcc: b@example.com", "mailto:a@example.com,b@example.com",
			"mailto:a@example.com?bcc=b@example.com", "mailto:\"a b\"@example.com",
			"mailto:a@example.com%0d%0aBcc:x", "mailto:a%0d%0ab@example.com",
			"mailto:a@example.com?subject=x", "mailto:a@[IPv6:::1]",
			`https://example.com/\x`, "https://example.com/a b", "https://example.com/\x7f",
			"mailto:a\x7f@example.com",
		}
		for _, c := range `"<>(),;:\` {
			for _, address := range []string{
				"a%cb@a.b", "%ca@a.b", "%ca%[1]c@a.b", "a@a%c.b", "a@a.b%c",
			} {
				wrong = append(wrong, "mailto:"+fmt.Sprintf(address, c))
			}
		}
		for _, to := range wrong {
			err := alert.Set(t.Context(), w.Engine, "bill", alert.Rule{To: []string{to}},
				admin.Note{})
			if journal.CodeOf(err) != journal.CodeInvalid || !strings.Contains(err.Error(),
				"is not valid: it") && !strings.Contains(err.Error(), "is not valid: a") {
				t.Errorf("%q: %v", to, err)
			}
			odd := strings.ContainsAny(to, " \r\x7f") || !utf8.ValidString(to)
			if odd && !strings.Contains(fmt.Sprint(err), "spaces") {
				t.Errorf("%q: %v", to, err)
			}
		}
		for _, to := range []string{
			"https://hooks.example.com/a/b?c=d", "https://[2606:4700::1]:8443/", "https://1.1.1.1/",
			"http://alerts.internal:8080/", "mailto:ops+night@example.com",
		} {
			world.NoError(t, alert.Set(t.Context(), w.Engine, "bill", alert.Rule{To: []string{to}},
				admin.Note{}))
		}
	})
}

// spec: R-31
func TestARuleThatIsNotValidIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, bill, alert.Workflow(alert.Options{}))
		defer w.End()
		to := []string{"mailto:a@example.com"}
		many := []string{}
		for i := range 21 {
			many = append(many, "mailto:a"+strings.Repeat("x", i)+"@example.com")
		}
		for want, r := range map[string]alert.Rule{
			"a rule without a recipient":  {},
			"21 recipients are not valid": {To: many},
			"is there twice":              {To: []string{to[0], to[0]}},
			`cause "no" is not valid`:     {To: to, Causes: []alert.Cause{"no"}},
			"status COMPLETED is not valid": {
				To: to, Statuses: []perdure.RunStatus{journal.Completed},
			},
			"InARow of -1 is not valid":   {To: to, InARow: -1},
			"Times of 1001 is not valid":  {To: to, Times: 1001, Within: time.Hour},
			"Times and Within":            {To: to, Times: 3},
			"Within of -1ns is not valid": {To: to, Within: -1, Times: 1},
			"Longest of 1ms is not valid": {To: to, Longest: time.Millisecond},
			"LongestWait of -1h0m0s":      {To: to, LongestWait: -time.Hour},
		} {
			err := alert.Set(t.Context(), w.Engine, "bill", r, admin.Note{})
			if journal.CodeOf(err) != journal.CodeInvalid || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", want, err)
			}
		}
		huge := alert.Rule{
			To: to, Longest: math.MaxInt64, LongestWait: math.MaxInt64, Within: math.MaxInt64,
			Times: 2,
		}
		world.NoError(t, alert.Set(t.Context(), w.Engine, alert.Default, huge, admin.Note{}))
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if s := w.Status("perdure.alert"); s != journal.Waiting {
			t.Error(s)
		}
		for _, name := range []string{"a b", strings.Repeat("x", 256), "perdure.batch", "\xff"} {
			_, tested := alert.Test(t.Context(), w.Engine, name)
			for _, err := range []error{
				alert.Set(t.Context(), w.Engine, name, alert.Rule{To: to}, admin.Note{}),
				alert.Reset(t.Context(), w.Engine, name, admin.Note{}), tested,
			} {
				if journal.CodeOf(err) != journal.CodeInvalid {
					t.Errorf("%q: %v", name, err)
				}
			}
		}
		err := alert.Set(t.Context(), w.Engine, "bill", alert.Rule{To: to}, admin.Note{By: "\xff"})
		_, none := alert.List(t.Context(), (*perdure.Client)(nil))
		_, nobody := alert.List(t.Context(), nil)
		for _, err := range []error{err, none, nobody} {
			if journal.CodeOf(err) != journal.CodeInvalid {
				t.Error(err)
			}
		}
	})
}

// spec: R-31
func TestAnEngineWithoutTheWorkflowRefusesRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, bill)
		defer w.End()
		err := alert.Set(t.Context(), w.Engine, "bill", alert.Rule{To: []string{ops}}, admin.Note{})
		if journal.CodeOf(err) != journal.CodeUnregistered {
			t.Error(err)
		}
	})
}
