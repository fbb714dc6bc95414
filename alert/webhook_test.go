package alert

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/journal"
)

var loopback = []netip.Prefix{
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"),
}

func hookTo(t *testing.T, h http.Handler) (*webhook, string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(a http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body) // only then the server hears that the sender is gone
		if err == nil {
			q.Body = io.NopCloser(bytes.NewReader(body))
			h.ServeHTTP(a, q)
		}
	}))
	t.Cleanup(s.Close)
	return newWebhook(Options{Secret: []byte("s3cret"), Internal: loopback}), s.URL
}

// isPermanent reports whether an error ends the attempts.
func isPermanent(err error) bool { return failure.Of(err).Class == journal.ClassPermanent }

var example = Alert{
	ID: "r1", Cause: CauseEnded, Workflow: "bill", Text: "run b1 has ended as FAILED", Count: 1,
	Runs: []Run{{RunID: "x", WorkflowID: "b1", Status: journal.Failed, Text: "<&> é\r\n"}},
}

// A receiver finds the signature by the recipe of Standard Webhooks, and the alert in the body.
//
// spec: R-31
func TestAWebhookIsSigned(t *testing.T) {
	came := make(chan Alert, 1)
	w, url := hookTo(t, http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		h := hmac.New(sha256.New, []byte("s3cret"))
		_, _ = h.Write([]byte(q.Header.Get("webhook-id") + "." + q.Header.Get("webhook-timestamp") +
			"." + string(body)))
		want := "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
		var at int64
		_, err := fmt.Sscan(q.Header.Get("webhook-timestamp"), &at)
		var a Alert
		if q.Header.Get("webhook-signature") != want || err != nil || q.Method != "POST" ||
			time.Since(time.Unix(at, 0)).Abs() > time.Minute || json.Unmarshal(body, &a) != nil ||
			q.Header.Get("Content-Type") != "application/json" || !q.Close ||
			q.Header.Get("Accept-Encoding") != "" {
			t.Errorf("%v %s", q.Header, body)
		}
		came <- a
	}))
	if status, err := w.send(t.Context(), url+"/x?y=z", example); status != 200 || err != nil {
		t.Fatal(status, err)
	}
	if a := <-came; a.ID != "r1" || a.Runs[0].WorkflowID != "b1" {
		t.Errorf("%+v", a)
	}
	w.secret = nil
	if _, err := w.send(t.Context(), url, example); err == nil ||
		!strings.Contains(err.Error(), "there is no secret") {
		t.Error(err)
	}
}

// spec: R-31
func TestInternalAddressesAreNotDialled(t *testing.T) {
	w := newWebhook(Options{Secret: []byte("s")})
	for _, ip := range []string{
		"127.0.0.1", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "192.168.1.1",
		"169.254.169.254",
		"100.64.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.192", "198.18.0.1", "224.0.0.1",
		"240.0.0.1", "255.255.255.255", "::", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1",
		"::ffff:10.0.0.1", "::7f00:1", "64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::",
		"2001::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "100::1",
		"2001:db8::1", "2606:4700::1%eth0", "::ffff:1.1.1.1%eth0", "3fff::1", "192.0.2.1",
		"192.88.99.1", "198.51.100.1", "203.0.113.1",
	} {
		if !isInternal(netip.MustParseAddr(ip)) {
			t.Errorf("%s is allowed", ip)
		}
		host := "[" + ip + "]:8443"
		if !strings.Contains(ip, ":") {
			host = ip + ":8443"
		}
		if _, err := w.dial(t.Context(), "tcp", host); !errors.Is(err, errTarget) {
			t.Error(ip, err)
		}
		if err := w.control("tcp", host, nil); !errors.Is(err, errTarget) {
			t.Error(ip, err)
		}
	}
	for _, ip := range []string{"1.1.1.1", "8.8.8.8", "2606:4700:4700::1111", "::ffff:1.1.1.1"} {
		if isInternal(netip.MustParseAddr(ip)) {
			t.Errorf("%s is not allowed", ip)
		}
	}
}

// The socket itself refuses an internal address, though a server listens there.
//
// spec: R-31
func TestTheSocketRefusesAnInternalAddress(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	at := s.Listener.Addr().String()
	other := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, c := range []struct {
		internal []netip.Prefix
		ok       bool
	}{{nil, false}, {other, false}, {loopback, true}} {
		w := newWebhook(Options{Secret: []byte("s"), Internal: c.internal})
		conn, err := w.dialer.DialContext(t.Context(), "tcp", at)
		if err == nil {
			_ = conn.Close()
		}
		if (err == nil) != c.ok || !c.ok && !errors.Is(err, errTarget) {
			t.Error(c.internal, err)
		}
	}
	w := newWebhook(Options{Internal: loopback})
	if mapped := netip.MustParseAddr("::ffff:127.0.0.1"); !w.isAllowed(mapped) {
		t.Errorf("%v is not allowed as IPv4 is", mapped)
	}
}

// A delivery whose recipient is not valid, whoever has started it, is sent nowhere.
//
// spec: R-31
func TestADeliveryChecksItsRecipient(t *testing.T) {
	o := Options{Secret: []byte("s"), Internal: loopback}
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("it was sent")
	}))
	defer s.Close()
	to := strings.Replace(s.URL, "http://", "http://user:pw@", 1)
	_, err := o.send(t.Context(), newWebhook(o), delivery{to, example})
	if err == nil || !strings.Contains(err.Error(), "it has a user") || !isPermanent(err) {
		t.Error(err)
	}
}

// A name that leads to an internal address is refused, also if another of its addresses is public,
// and whatever it led to a moment before. The error is that of a target that does not answer.
//
// spec: R-31
func TestANameThatLeadsInsideIsNotDialled(t *testing.T) {
	asked := 0
	var answers [][]string
	w := newWebhook(Options{Secret: []byte("s")})
	w.lookUp = func(context.Context, string) (all []netip.Addr, err error) {
		for _, ip := range answers[asked] {
			all = append(all, netip.MustParseAddr(ip))
		}
		asked++
		if len(all) == 0 {
			err = &net.DNSError{Err: "no such host"}
		}
		return all, err
	}
	var dialled []string
	w.dialer.Control = func(_, address string, _ syscall.RawConn) error {
		dialled = append(dialled, address)
		return errTarget // nothing public is reached
	}
	for _, answers = range [][][]string{
		{{"127.0.0.1"}}, {{"203.0.114.1", "10.0.0.1"}}, {{"203.0.114.1", "fd00::1"}},
		{{"203.0.114.1"}, {"127.0.0.1"}}, {{}},
	} {
		for asked = 0; asked < len(answers); {
			before := asked
			_, err := w.send(t.Context(), "https://hooks.example.com/x", example)
			if !errors.Is(err, errTarget) || asked != before+1 {
				t.Error(answers, asked, err)
			}
			if len(answers[before]) != 1 && len(dialled) > 0 {
				t.Error(answers, dialled)
			}
			dialled = nil
		}
	}
}

// spec: R-31
func TestARedirectIsNotFollowed(t *testing.T) {
	var calls atomic.Int32
	to := ""
	w, url := hookTo(t, http.HandlerFunc(func(a http.ResponseWriter, q *http.Request) {
		calls.Add(1)
		http.Redirect(a, q, to, http.StatusTemporaryRedirect)
	}))
	for _, to = range []string{url, "http://10.0.0.1/", "file:///etc/passwd", "gopher://x"} {
		calls.Store(0)
		status, err := w.send(t.Context(), url, example)
		if status != 307 || err == nil || calls.Load() != 1 ||
			!strings.Contains(err.Error(), "answered 307") {
			t.Error(to, status, err, calls.Load())
		}
	}
}

// spec: R-31
func TestAWebhookUsesNoProxy(t *testing.T) {
	proxied := false
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		proxied = true
	}))
	defer proxy.Close()
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("HTTPS_PROXY", proxy.URL)
	w := newWebhook(Options{Secret: []byte("s"), Internal: loopback})
	w.lookUp = func(context.Context, string) ([]netip.Addr, error) {
		return nil, errors.New("no such host")
	}
	for _, to := range []string{"http://hooks.example.com/", "https://hooks.example.com/"} {
		if _, err := w.send(t.Context(), to, example); !errors.Is(err, errTarget) || proxied {
			t.Error(to, err, proxied)
		}
	}
	if tr, is := w.client.Transport.(*http.Transport); !is || tr.Proxy != nil {
		t.Error("it has a proxy")
	}
}

// An answer that is slow, endless or has endless headers costs a bounded time, and its body is not
// read.
//
// spec: R-31
func TestAnAnswerIsBounded(t *testing.T) {
	for name, h := range map[string]func(a http.ResponseWriter, q *http.Request){
		"slow": func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() },
		"many headers": func(a http.ResponseWriter, _ *http.Request) {
			for i := range 100_000 {
				a.Header().Set(fmt.Sprint("x-", i), "y")
			}
		},
		"many early answers": func(a http.ResponseWriter, q *http.Request) {
			a.Header().Set("x", strings.Repeat("y", 1000))
			for q.Context().Err() == nil {
				a.WriteHeader(http.StatusEarlyHints)
			}
		},
	} {
		w, url := hookTo(t, http.HandlerFunc(h))
		if w.client.Timeout != webhookTime {
			t.Error(w.client.Timeout)
		}
		w.client.Timeout = 300 * time.Millisecond
		if _, err := w.send(t.Context(), url, example); !errors.Is(err, errTarget) {
			t.Error(name, err)
		}
	}
	written := make(chan int, 1)
	w, url := hookTo(t, http.HandlerFunc(func(a http.ResponseWriter, q *http.Request) {
		n := 0
		for q.Context().Err() == nil && n < 1<<30 {
			k, _ := a.Write(make([]byte, 1<<20))
			n += k
		}
		written <- n
	}))
	if status, err := w.send(t.Context(), url, example); status != 200 || err != nil {
		t.Error(status, err)
	}
	if n := <-written; n > 64<<20 { // the sockets hold some
		t.Errorf("it has read %d bytes of an answer", n)
	}
}

// The error of a webhook has nothing of what the receiver answers but the status.
//
// spec: R-31
func TestAnAnswerIsNotShown(t *testing.T) {
	code := 0
	w, url := hookTo(t, http.HandlerFunc(func(a http.ResponseWriter, _ *http.Request) {
		http.Error(a, "the password is x", code)
	}))
	for known, permanent := range map[int]bool{
		307: true, 400: true, 404: true, 410: true, 408: false, 425: false, 429: false, 500: false,
		503: false,
	} {
		code = known
		status, err := w.send(t.Context(), url, example)
		if status != code || err == nil ||
			err.Error() != fmt.Sprint("the webhook answered ", code) {
			t.Error(status, err)
		}
		if is := isPermanent(err); is != permanent {
			t.Errorf("%d ends the attempts: %t", code, is)
		}
	}
}

// spec: R-31
func TestABadCertificateIsRefused(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("it was sent")
	}))
	defer s.Close()
	s.Config.ErrorLog = nil
	w := newWebhook(Options{Secret: []byte("s"), Internal: loopback})
	if _, err := w.send(t.Context(), s.URL, example); !errors.Is(err, errTarget) {
		t.Error(err)
	}
	tr, is := w.client.Transport.(*http.Transport)
	if c := tr.TLSClientConfig; !is || c != nil && (c.InsecureSkipVerify ||
		c.MinVersion < tls.VersionTLS12) {
		t.Errorf("%+v", c)
	}
}

// Plain http is sent only to the networks that the application allows.
//
// spec: R-31
func TestPlainHTTPIsForAllowedNetworksOnly(t *testing.T) {
	w := newWebhook(Options{Secret: []byte("s"), Internal: loopback})
	dialled := false
	w.dialer.Control = nil
	w.dialer.ControlContext = nil
	w.lookUp = func(context.Context, string) ([]netip.Addr, error) {
		dialled = true
		return []netip.Addr{netip.MustParseAddr("203.0.114.1")}, nil
	}
	began := time.Now()
	if _, err := w.send(t.Context(), "http://hooks.example.com/", example); !errors.Is(err,
		errTarget) || !dialled || time.Since(began) > webhookTime/2 {
		t.Error(err, dialled)
	}
}

// spec: R-31
func TestTheSchemeOfAWebhookMayBeInCapitals(t *testing.T) {
	w := newWebhook(Options{Secret: []byte("s")})
	for to, want := range map[string]bool{
		"https://example.com": false, "HTTPS://example.com": false, "Http://example.com": true,
	} {
		isPlain := !want
		w.client.Transport = &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				isPlain = ctx.Value(plain{}) != nil
				return nil, errTarget
			},
		}
		if _, err := w.send(t.Context(), to, example); !errors.Is(err, errTarget) ||
			isPlain != want {
			t.Errorf("%s: sent as http: %v, %v", to, isPlain, err)
		}
	}
}
