package alert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// An authority signs certificates.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true,
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true,
	}
	a.key = a.newKey()
	data, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, a.key.Public(), a.key)
	if err == nil {
		a.cert, err = x509.ParseCertificate(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

// signed returns a certificate for 127.0.0.1, with changes.
func (a *authority) signed(change func(*x509.Certificate)) tls.Certificate {
	a.t.Helper()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "hook"},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	change(c)
	key := a.newKey()
	data, err := x509.CreateCertificate(rand.Reader, c, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{data}, PrivateKey: key}
}

// serveTLS starts a server that counts the requests that reach it.
func serveTLS(t *testing.T, c *tls.Config) (url string, came chan bool) {
	t.Helper()
	came = make(chan bool, 10)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		came <- true
	}))
	s.TLS, s.Config.ErrorLog = c, log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL, came
}

// A certificate of an authority that is trusted is good, and nothing else is; nor is an old version
// of TLS.
//
// spec: R-31
func TestWebhooksTrustGoodCertificatesOnly(t *testing.T) {
	trusted, untrusted := newAuthority(t), newAuthority(t)
	same := func(*x509.Certificate) {}
	good := trusted.signed(same)
	for name, c := range map[string]struct {
		cert    tls.Certificate
		version uint16 // the newest that the server has
		ok      bool
	}{
		"good":    {good, tls.VersionTLS13, true},
		"TLS 1.2": {good, tls.VersionTLS12, true},
		"TLS 1.1": {good, tls.VersionTLS11, false},
		"TLS 1.0": {good, tls.VersionTLS10, false},
		"expired": {trusted.signed(func(c *x509.Certificate) {
			c.NotAfter = time.Now().Add(-time.Hour)
		}), tls.VersionTLS13, false},
		"not valid yet": {trusted.signed(func(c *x509.Certificate) {
			c.NotBefore = time.Now().Add(30 * time.Minute)
		}), tls.VersionTLS13, false},
		"of another host": {trusted.signed(func(c *x509.Certificate) {
			c.IPAddresses, c.DNSNames = nil, []string{"hooks.example.com"}
		}), tls.VersionTLS13, false},
		"of an authority that nobody trusts": {untrusted.signed(same), tls.VersionTLS13, false},
	} {
		url, came := serveTLS(t, &tls.Config{
			Certificates: []tls.Certificate{c.cert}, MinVersion: tls.VersionTLS10,
			MaxVersion: c.version,
		})
		w := newWebhook(Options{Secret: []byte("s"), Internal: loopback})
		tr, is := w.client.Transport.(*http.Transport)
		if !is {
			t.Fatal("the transport is another one")
		}
		own := tr.TLSClientConfig.Clone()
		if own == nil {
			own = &tls.Config{}
		}
		own.RootCAs = x509.NewCertPool()
		own.RootCAs.AddCert(trusted.cert)
		tr.TLSClientConfig = own
		status, err := w.send(t.Context(), url, example)
		switch {
		case c.ok && (status != 200 || err != nil || len(came) != 1):
			t.Errorf("%s: %d, %v", name, status, err)
		case !c.ok && (!errors.Is(err, errTarget) || len(came) != 0):
			t.Errorf("%s: %d, %v, %d requests", name, status, err, len(came))
		}
	}
}
