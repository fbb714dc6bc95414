package auth_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/server/auth"
)

// spec: B-18
func TestATokenIsRandomAndOnlyItsHashIsKept(t *testing.T) {
	a, hash := auth.NewToken()
	b, _ := auth.NewToken()
	if a == b || !strings.HasPrefix(a, "pdr_") || len(a) < 47 {
		t.Error(a, b)
	}
	if hash != auth.Hash(a) || strings.Contains(hash, a) || auth.CheckHash(hash) != nil {
		t.Error(hash)
	}
	for _, bad := range []string{"", "x", a, "sha256:", hash + "0", hash[:70], "md5:" + hash[7:]} {
		if auth.CheckHash(bad) == nil {
			t.Errorf("%q is taken as a hash", bad)
		}
	}
}

// spec: B-18
func TestOnlyWholeCredentialsAreSet(t *testing.T) {
	_, hash := auth.NewToken()
	var tokens auth.Tokens
	for _, c := range []auth.Credential{
		{}, {Name: "ada", Role: auth.Admin}, {Name: "ada", Hash: hash},
		{Role: auth.Admin, Hash: hash}, {Name: "ada", Role: auth.Public, Hash: hash},
		{Name: "ada", Role: auth.Admin + 1, Hash: hash}, {Name: "ada", Role: -1, Hash: hash},
	} {
		if tokens.Set([]auth.Credential{c}) == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	upper := "sha256:" + strings.ToUpper(strings.TrimPrefix(hash, "sha256:"))
	for _, h := range []string{hash, upper} {
		if err := tokens.Set([]auth.Credential{{Name: "ada", Role: auth.Admin, Hash: h}}); err !=
			nil {
			t.Error(h, err)
		}
	}
}

// The hash of a token is no token: whoever reads a configuration cannot call.
//
// spec: B-18
func TestAHashIsNoToken(t *testing.T) {
	token, hash := auth.NewToken()
	var tokens auth.Tokens
	vera := auth.Credential{Name: "v", Role: auth.Viewer, Hash: hash}
	if err := tokens.Set([]auth.Credential{vera}); err != nil {
		t.Fatal(err)
	}
	for shown, want := range map[string]error{
		"Bearer " + token: nil, "bearer " + token: nil,
		"Bearer " + hash: auth.ErrBadCredential, "Bearer " + token + " ": auth.ErrBadCredential,
		token: auth.ErrBadCredential, "Bearer\t" + token: auth.ErrBadCredential,
		"": auth.ErrBadCredential,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", shown)
		if who, err := tokens.Authenticate(r); err != want || err == nil && who.Name != "v" {
			t.Errorf("%q: %+v, %v", shown, who, err)
		}
	}
}

func TestRolesHaveNames(t *testing.T) {
	for _, r := range []auth.Role{auth.Viewer, auth.Operator, auth.Admin} {
		if got, ok := auth.ParseRole(r.String()); !ok || got != r {
			t.Error(r, got, ok)
		}
	}
	for _, name := range []string{"", "public", "root", "Admin"} {
		if r, ok := auth.ParseRole(name); ok {
			t.Error(name, r)
		}
	}
}

// A subscriber of IPv6 has many addresses and is one source. A source may fail again later.
//
// spec: B-18
func TestFailuresAreCountedBySource(t *testing.T) {
	var f auth.Failures
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	failed := func(from string) bool {
		tooMany, wait := f.Failed(netip.MustParseAddr(from), now)
		if wait <= 0 {
			t.Error(wait)
		}
		return tooMany
	}
	for range 20 {
		if failed("2001:db8::1") || failed("192.0.2.1") {
			t.Fatal("refused too early")
		}
	}
	for from, want := range map[string]bool{
		"2001:db8::2": true, "2001:db8:0:1::1": false, "192.0.2.1": true, "::ffff:192.0.2.1": true,
		"192.0.2.2": false,
	} {
		if got := failed(from); got != want {
			t.Errorf("%s: %v", from, got)
		}
	}
	if now = now.Add(time.Minute); failed("192.0.2.1") {
		t.Error("it may never try again")
	}
	from := netip.MustParseAddr("10.0.0.1")
	for range 30_000 { // more sources than are remembered
		f.Failed(from, now)
		from = from.Next()
	}
}
