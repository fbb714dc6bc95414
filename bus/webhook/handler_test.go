package webhook_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/bus/webhook"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/orchestrator"
)

func inJSON(id string) string {
	return `{"specversion":"1.0","id":"` + id + `","source":"/s","type":"t"}`
}

// inHeaders returns the headers of an event in binary mode, with more.
func inHeaders(more ...string) []string {
	return append([]string{
		"ce-specversion", "1.0", "ce-id", "1", "ce-source", "/s", "ce-type", "t",
	}, more...)
}

// spec: F-11
func TestWhatIsNoEventIsRefusedWithAllDefects(t *testing.T) {
	in := &inbox{}
	url := serve(t, &webhook.Handler{Handle: in.take, Log: quiet(), MaxBytes: 1000})
	structured := []string{"content-type", single}
	batched := []string{"content-type", batch}
	for _, c := range []struct {
		name    string
		headers []string
		body    string
		code    int
		says    []string
	}{
		{"no JSON", structured, "{", 400, []string{"unexpected end"}},
		{"rubbish", structured, "\x00\xff", 400, []string{"invalid character"}},
		{"nothing", structured, "", 400, []string{"unexpected end"}},
		{"null", structured, "null", 400, []string{"an event is a JSON object"}},
		{"a list", structured, "[" + inJSON("1") + "]", 400, []string{"cannot unmarshal"}},
		{"two", structured, inJSON("1") + inJSON("2"), 400, []string{"after top-level"}},
		{
			"missing attributes", structured, `{"specversion":"1.0"}`, 400,
			[]string{"id is missing", "source is missing", "type is missing"},
		},
		{
			"another version", structured, strings.Replace(inJSON("1"), "1.0", "0.3", 1), 400,
			[]string{`specversion "0.3" is not valid`},
		},
		{
			"data of no text", structured, `{"data_base64":1,` + inJSON("1")[1:], 400,
			[]string{"data_base64 is not valid"},
		},
		{
			"several defects", structured,
			`{"specversion":"2","id":"","source":"/s","type":1,"time":"now","A":{}}`, 400,
			[]string{"specversion", "id is missing", "type", `time "now"`, `extension "A"`},
		},
		{
			"headers without a version", []string{"ce-id", "1", "ce-time", "x"}, "", 400,
			[]string{`specversion "" is not valid`, "source is missing", "type is missing", "time"},
		},
		{
			"headers of another version", inHeaders("ce-schemaurl", "a b")[2:], "", 400,
			[]string{`specversion "" is not valid`},
		},
		{
			"headers twice", inHeaders("ce-id", "2", "ce-x", "1", "ce-x", "2"), "", 400,
			[]string{`"Ce-Id" is there twice`, `"Ce-X" is there twice`},
		},
		{"a header without a name", inHeaders("ce-", "1"), "", 400, []string{"ce- has no name"}},
		{
			"headers that are no attributes", inHeaders("ce-a_b", "1", "ce-data", "1", "ce-y", ""),
			"", 400, []string{`"a_b"`, `"data"`, "extension y"},
		},
		{
			"a header that is no UTF-8", inHeaders("ce-subject", "%C0%A0"), "", 400,
			[]string{"subject"},
		},
		{"data that is no JSON", inHeaders(), "a", 400, []string{"data is not JSON"}},
		{
			"two content types", inHeaders("content-type", "text/plain", "content-type", single),
			"a", 400, []string{"content-type is there twice"},
		},
		{"a batch that is none", batched, inJSON("1"), 400, []string{"a batch is a JSON array"}},
		{"a batch of null", batched, "null", 400, []string{"a batch is a JSON array"}},
		{
			"a batch with bad events", batched,
			"[" + inJSON("1") + `,null,` + inJSON("3") + `,{"specversion":"1.0"}]`, 400,
			[]string{"event 2 of the batch", "event 4 of the batch: id is missing", "type"},
		},
		{"no media type", nil, inJSON("1"), 415, []string{`content-type ""`, single, batch}},
		{"plain JSON", []string{"content-type", "application/json"}, "{}", 415, nil},
		{"XML", []string{"content-type", "application/cloudevents+xml"}, "<a/>", 415, nil},
		{
			"XML with headers", inHeaders("content-type", "application/cloudevents+xml"), "", 415,
			nil,
		},
		{
			"another charset", []string{"content-type", single + "; charset=utf-16"}, inJSON("1"),
			415, nil,
		},
		{"a compressed body", append(structured, "content-encoding", "gzip"), "x", 415, nil},
		{"a huge body", structured, strings.Repeat("x", 1001), 413, []string{"1000 bytes"}},
		{"a huge body with headers", inHeaders(), strings.Repeat("x", 1001), 413, nil},
	} {
		a := ask(t, "POST", url, c.body, c.headers...)
		if a.code != c.code || !strings.HasPrefix(a.header.Get("content-type"), "text/plain") {
			t.Errorf("%s: answer %+v, want %d", c.name, a, c.code)
		}
		for _, want := range c.says {
			if !strings.Contains(a.text, want) {
				t.Errorf("%s: answer %q does not have %q", c.name, a.text, want)
			}
		}
		if got := in.taken(); got != nil {
			t.Errorf("%s: %+v was handled", c.name, got)
		}
	}
}

// spec: F-11
func TestHeadersAreDecodedOnce(t *testing.T) {
	in := &inbox{}
	url := serve(t, &webhook.Handler{Handle: in.take})
	for value, want := range map[string]string{
		"a%20b": "a b", "%e2%82%AC": "€", "€ b": "€ b", "100% sure": "100% sure", "a%": "a%",
		"%2541": "%41", `"a \"b\" \\ c%20d"`: `a "b" \ c d`, `"a"b"`: `"a"b"`, `"`: `"`,
		`"a\"`: `"a\"`, "%4": "%4", "%g1%1g": "%g1%1g",
	} {
		a := ask(t, "POST", url, "", inHeaders("ce-subject", value)...)
		if got := in.taken(); a.code != 204 || len(got) != 1 || got[0].Subject != want {
			t.Errorf("%s: answer %+v, %+v has come, want subject %q", value, a, got, want)
		}
	}
}

// spec: F-11
func TestABodyWithoutALengthIsLimitedToo(t *testing.T) {
	for size, want := range map[int]int{1 << 20: 400, 1<<20 + 1: 413} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/",
			io.LimitReader(zeros{}, int64(size)))
		r.ContentLength = -1
		r.Header.Set("content-type", single)
		w := httptest.NewRecorder()
		(&webhook.Handler{Handle: (&inbox{}).take, Log: quiet()}).ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%d bytes: answer %d, want %d", size, w.Code, want)
		}
	}
}

// spec: F-11
func TestABodyThatSaysThatItIsTooLargeIsNotRead(t *testing.T) {
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/",
		iotest.ErrReader(errors.New("it is read")))
	r.ContentLength = 1<<20 + 1
	r.Header.Set("content-type", single)
	w := httptest.NewRecorder()
	(&webhook.Handler{Handle: (&inbox{}).take, Log: quiet()}).ServeHTTP(w, r)
	if w.Code != 413 {
		t.Errorf("answer %d", w.Code)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// spec: F-11
func TestABodyThatDoesNotComeIsAskedForAgain(t *testing.T) {
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/",
		io.MultiReader(strings.NewReader(inJSON("1")), iotest.ErrReader(io.ErrUnexpectedEOF)))
	r.Header.Set("content-type", single)
	w, in := httptest.NewRecorder(), &inbox{}
	(&webhook.Handler{Handle: in.take, Log: quiet()}).ServeHTTP(w, r)
	if got := in.taken(); w.Code != 408 || got != nil {
		t.Errorf("answer %d, %+v was handled", w.Code, got)
	}
}

// spec: F-11
func TestTheAnswerFollowsFromTheError(t *testing.T) {
	in := &inbox{}
	url := serve(t, &webhook.Handler{Handle: in.take, Log: quiet()})
	secret := errors.New("the password is 1234")
	for _, c := range []struct {
		name  string
		fails func(event.Event) error
		code  int
		says  string
	}{
		{"handled", nil, 204, ""},
		{"an error", func(event.Event) error { return secret }, 503, "send it again"},
		{"a panic", func(event.Event) error { panic(secret) }, 503, "send it again"},
		{
			"a panic of net/http", func(event.Event) error { panic(http.ErrAbortHandler) }, 503,
			"send it again",
		},
		{
			"an error that panics", func(event.Event) error { return (*brittle)(nil) }, 503,
			"send it again",
		},
		{
			"a rejection",
			func(event.Event) error {
				all := errors.Join(errors.New("b"), errors.New("c"))
				return fmt.Errorf("a: %w", bus.Reject(all))
			},
			400, `event 1, "1", is rejected: a: b` + "\nc",
		},
		{
			"a violation",
			func(e event.Event) error { return &orchestrator.Violation{ID: e.ID, Err: secret} },
			400, secret.Error(),
		},
		{
			"a long rejection",
			func(event.Event) error { return bus.Reject(errors.New(strings.Repeat("ü", 5000))) },
			400, "ü…",
		},
	} {
		in.fails = c.fails
		a := ask(t, "POST", url, inJSON("1"), "content-type", single)
		if a.code != c.code || !strings.Contains(a.text, c.says) || len(a.text) > 5000 {
			t.Errorf("%s: answer %+v, want %d with %q", c.name, a, c.code, c.says)
		}
		if again := a.header.Get("retry-after"); (c.code == 503) != (again != "") {
			t.Errorf("%s: Retry-After is %q", c.name, again)
		}
		if c.code == 503 && strings.Contains(a.text, "1234") {
			t.Errorf("%s: answer %q has the error", c.name, a.text)
		}
		if got := in.ids(); got != " 1" {
			t.Errorf("%s:%s was handled", c.name, got)
		}
	}
}

// A brittle is an error whose methods panic.
type brittle struct{ text string }

func (b *brittle) Error() string { return b.text }
func (b *brittle) Unwrap() error { return errors.New(b.text) }

// spec: F-11
func TestABatchEndsAtAnErrorAndGoesOnBehindARejection(t *testing.T) {
	in := &inbox{}
	url := serve(t, &webhook.Handler{Handle: in.take, Log: quiet()})
	body := "[" + inJSON("1") + "," + inJSON("2") + "," + inJSON("3") + "," + inJSON("4") + "]"
	for _, c := range []struct {
		errs map[string]error
		code int
		says []string
		ids  string
	}{
		{nil, 204, nil, " 1 2 3 4"},
		{map[string]error{"3": errors.New("x")}, 503, []string{`event 3, "3"`}, " 1 2 3"},
		{
			map[string]error{"2": bus.Reject(errors.New("x")), "4": bus.Reject(errors.New("y"))},
			400, []string{`event 2, "2", is rejected: x`, `event 4, "4", is rejected: y`},
			" 1 2 3 4",
		},
		{
			map[string]error{"1": bus.Reject(errors.New("x")), "2": errors.New("y")},
			503, []string{`event 2, "2"`}, " 1 2",
		},
	} {
		in.fails = func(e event.Event) error { return c.errs[e.ID] }
		a := ask(t, "POST", url, body, "content-type", batch)
		if got := in.ids(); a.code != c.code || got != c.ids {
			t.Errorf("%v: answer %+v,%s were handled, want %d and%s", c.errs, a, got, c.code, c.ids)
		}
		for _, want := range c.says {
			if !strings.Contains(a.text, want) {
				t.Errorf("%v: answer %q does not have %q", c.errs, a.text, want)
			}
		}
	}
}

// spec: F-11
func TestOtherMethodsAreNotAllowed(t *testing.T) {
	in := &inbox{}
	url := serve(t, &webhook.Handler{Handle: in.take})
	for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE"} {
		a := ask(t, method, url, inJSON("1"), "content-type", single)
		if a.code != 405 || a.header.Get("allow") != "OPTIONS, POST" || in.taken() != nil {
			t.Errorf("%s: answer %+v", method, a)
		}
	}
}

// spec: F-11
func TestASenderAsksForPermission(t *testing.T) {
	for _, c := range []struct {
		name          string
		h             webhook.Handler
		origin        string
		allowed, rate string
	}{
		{"nobody by default", webhook.Handler{}, "shop.example", "", ""},
		{"no origin", webhook.Handler{Origins: []string{"*"}}, "", "", ""},
		{
			"another one", webhook.Handler{Origins: []string{"shop.example"}},
			"shop.example.evil.example", "", "",
		},
		{
			"the one", webhook.Handler{Origins: []string{"a.example", "shop.example"}},
			"Shop.example", "Shop.example", "*",
		},
		{
			"all", webhook.Handler{Origins: []string{"*"}, Rate: 120}, "shop.example", "*", "120",
		},
		{
			"without Authorize", webhook.Handler{
				Origins:   []string{"*"},
				Authorize: func(*http.Request) error { return errors.New("no") },
			}, "shop.example", "*", "*",
		},
	} {
		in := &inbox{}
		c.h.Handle = in.take
		headers := []string{
			"webhook-request-rate", "600", "webhook-request-callback", "http://127.0.0.1:1/",
		}
		if c.origin != "" {
			headers = append(headers, "webhook-request-origin", c.origin)
		}
		a := ask(t, "OPTIONS", serve(t, &c.h), "", headers...)
		if a.code != 204 || a.header.Get("webhook-allowed-origin") != c.allowed ||
			a.header.Get("webhook-allowed-rate") != c.rate ||
			a.header.Get("allow") != "OPTIONS, POST" || in.taken() != nil {
			t.Errorf("%s: answer %+v", c.name, a)
		}
	}
}

// spec: F-11
func TestAuthorizeDecidesWhoMaySend(t *testing.T) {
	in := &inbox{}
	sign := func(body string) string {
		mac := hmac.New(sha256.New, []byte("key"))
		mac.Write([]byte(body))
		return hex.EncodeToString(mac.Sum(nil))
	}
	var log bytes.Buffer
	url := serve(t, &webhook.Handler{
		Handle: in.take, MaxBytes: 200, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Authorize: func(r *http.Request) error {
			if r.Header.Get("panics") != "" {
				panic("a bug")
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			r.Body.Close()
			r.Header.Set("content-type", "text/plain") // that is its own
			if !hmac.Equal([]byte(r.Header.Get("signature")), []byte(sign(string(body)))) {
				return errors.New("the right one is 1234")
			}
			return nil
		},
	})
	body := inJSON("1")
	good := ask(t, "POST", url, body, "content-type", single, "signature", sign(body))
	if got := in.ids(); good.code != 204 || got != " 1" {
		t.Errorf("answer %+v,%s was handled", good, got)
	}
	bad := ask(t, "POST", url, body, "content-type", single, "signature", sign("x"))
	if bad.code != 401 || strings.Contains(bad.text, "1234") || in.taken() != nil ||
		bad.header.Get("www-authenticate") == "" {
		t.Errorf("a bad signature: answer %+v", bad)
	}
	failed := ask(t, "POST", url, body, "content-type", single, "panics", "1")
	if failed.code != 503 || in.taken() != nil || !strings.Contains(log.String(), "a bug") {
		t.Errorf("a panic: answer %+v, log %s", failed, log.String())
	}
}

// spec: F-11
func TestTheContextOfAHandlerEndsWithItsRequest(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, "POST", "/", strings.NewReader(inJSON("1")))
	r.Header.Set("content-type", single)
	w := httptest.NewRecorder()
	(&webhook.Handler{Log: quiet(), Handle: func(ctx context.Context, _ event.Event) error {
		leave()
		<-ctx.Done()
		return ctx.Err()
	}}).ServeHTTP(w, r)
	if w.Code != 503 {
		t.Errorf("answer %d", w.Code)
	}
}

// spec: F-11
func FuzzHandler(f *testing.F) {
	f.Add(single, inJSON("1"), "1.0", "ce-id", "1")
	f.Add(batch, "["+inJSON("1")+"]", "", "ce-", "")
	f.Add("text/plain", "a", "1.0", "ce-subject", `"%41`)
	f.Add(single, `{"data_base64":1,"specversion":"1.0"}`, "0.3", "ce-time", "x")
	f.Fuzz(func(t *testing.T, kind, body, version, name, value string) {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(body))
		r.Header = http.Header{
			"Content-Type": {kind}, "Ce-Specversion": {version}, "Ce-Id": {"1"},
			"Ce-Source": {"/s"}, "Ce-Type": {"t"},
		}
		if version == "" {
			delete(r.Header, "Ce-Specversion")
		}
		r.Header.Add(name, value)
		w, in := httptest.NewRecorder(), &inbox{}
		(&webhook.Handler{Handle: in.take, Log: quiet()}).ServeHTTP(w, r)
		switch got := in.taken(); w.Code {
		case 204:
			for i := range got {
				if err := got[i].Check(); err != nil {
					t.Errorf("%+v was handled: %v", got[i], err)
				}
			}
		case 400, 415:
			if got != nil || w.Body.Len() == 0 {
				t.Errorf("answer %d %q, %+v was handled", w.Code, w.Body, got)
			}
		default:
			t.Errorf("answer %d %q", w.Code, w.Body)
		}
	})
}
