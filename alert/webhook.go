package alert

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"github.com/perdure/perdure"
)

const (
	webhookTime   = 10 * time.Second // for one attempt, with all that the receiver answers
	webhookHeader = 64 << 10         // bytes of the headers of an answer
)

// A webhook sends webhooks.
type webhook struct {
	secret   []byte
	internal []netip.Prefix
	client   http.Client
	dialer   net.Dialer
	lookUp   func(ctx context.Context, host string) ([]netip.Addr, error)
}

func newWebhook(o Options) *webhook {
	w := &webhook{secret: bytes.Clone(o.Secret), internal: o.Internal}
	w.lookUp = func(ctx context.Context, host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	}
	w.dialer.Control = w.control
	w.client = http.Client{
		Timeout: webhookTime,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
		Transport: &http.Transport{ // without a proxy
			DialContext: w.dial, DisableKeepAlives: true, DisableCompression: true,
			MaxResponseHeaderBytes: webhookHeader,
		},
	}
	return w
}

// errTarget is the error of all targets that are not reached, so that nobody learns from it which
// internal addresses there are.
var errTarget = errors.New("the target of the webhook is not reached, or is not allowed: its " +
	"address must not be internal, and its certificate must be valid")

// plain is the context key of a request by http. It is sent to internal addresses only.
type plain struct{}

// send sends an alert. It returns the status of the answer. It does not read the body.
func (w *webhook) send(ctx context.Context, to string, a Alert) (status int, err error) {
	if len(w.secret) == 0 {
		return 0, perdure.Permanent(errors.New("there is no secret to sign webhooks: set " +
			"Options.Secret of package alert, or PERDURE_ALERT_SECRET of the program"))
	}
	body, err := json.Marshal(a)
	if err != nil {
		return 0, perdure.Permanent(err)
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return 0, perdure.Permanent(errTarget)
	}
	if q.URL.Scheme != "https" {
		q = q.WithContext(context.WithValue(ctx, plain{}, true))
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("User-Agent", "perdure")
	q.Header.Set("webhook-id", a.ID)
	q.Header.Set("webhook-timestamp", at)
	q.Header.Set("webhook-signature", "v1,"+sign(w.secret, a.ID, at, body))
	answer, err := w.client.Do(q)
	if err != nil {
		return 0, errTarget
	}
	_ = answer.Body.Close()
	status = answer.StatusCode
	switch {
	case status < 300:
		return status, nil
	case status < 500 && status != http.StatusRequestTimeout && status != http.StatusTooEarly &&
		status != http.StatusTooManyRequests:
		return status, perdure.Permanent(fmt.Errorf("the webhook answered %d", status))
	}
	return status, fmt.Errorf("the webhook answered %d", status)
}

// sign returns the signature of a webhook.
func sign(secret []byte, id, at string, body []byte) string {
	h := hmac.New(sha256.New, secret)
	_, _ = fmt.Fprintf(h, "%s.%s.%s", id, at, body)
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// dial resolves a name once, refuses it if any of its addresses is not allowed, and dials these
// addresses.
func (w *webhook) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, errTarget
	}
	all := []netip.Addr{}
	if ip, err := netip.ParseAddr(host); err == nil {
		all = append(all, ip)
	} else if all, err = w.lookUp(ctx, host); err != nil {
		return nil, errTarget
	}
	for _, ip := range all {
		if !w.isAllowed(ip) || ctx.Value(plain{}) != nil && !w.isExcepted(ip) {
			return nil, errTarget
		}
	}
	for _, ip := range all {
		conn, err := w.dialer.DialContext(ctx, network, net.JoinHostPort(ip.String(), port))
		if err == nil {
			return conn, nil
		}
	}
	return nil, errTarget
}

// control refuses an address once more, when the socket is about to connect to it.
func (w *webhook) control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !w.isAllowed(at.Addr()) {
		return errTarget
	}
	return nil
}

func (w *webhook) isAllowed(ip netip.Addr) bool {
	return !isInternal(ip) || w.isExcepted(ip)
}

// isExcepted reports whether the application allows an internal address.
func (w *webhook) isExcepted(ip netip.Addr) bool {
	ip = ip.Unmap()
	for _, p := range w.internal {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

// public is the part of IPv6 that is public, and special are parts of it and of IPv4 that are not:
// they lead into networks of one's own, or nowhere.
var (
	public  = netip.MustParsePrefix("2000::/3")
	special = []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"),
		netip.MustParsePrefix("100.64.0.0/10"),
		netip.MustParsePrefix("168.63.129.16/32"), // the host of a virtual machine in Azure
		netip.MustParsePrefix("192.0.0.0/24"),
		netip.MustParsePrefix("192.0.2.0/24"),
		netip.MustParsePrefix("192.88.99.0/24"),
		netip.MustParsePrefix("198.18.0.0/15"),
		netip.MustParsePrefix("198.51.100.0/24"),
		netip.MustParsePrefix("203.0.113.0/24"),
		netip.MustParsePrefix("240.0.0.0/4"),
		netip.MustParsePrefix("2001::/23"), // with Teredo
		netip.MustParsePrefix("2001:db8::/32"),
		netip.MustParsePrefix("2002::/16"), // 6to4
		netip.MustParsePrefix("3fff::/20"),
	}
)

// isInternal reports whether an address is not one of the public internet.
func isInternal(ip netip.Addr) bool {
	if ip.Zone() != "" {
		return true
	}
	ip = ip.Unmap()
	if !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.Is6() && !public.Contains(ip) {
		return true
	}
	for _, p := range special {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}
