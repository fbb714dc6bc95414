package token

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
)

var (
	testKey = Key{id: "abcdefgh", secret: bytes.Repeat([]byte{7}, secretSize)}
	now     = time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)
	claims  = Claims{
		Purpose: "callback", Run: "abc-1", Subject: "7/card", Detail: "x",
		Expires: now.Add(time.Hour),
	}
)

func signed(body []byte) string {
	return prefix + encoding.EncodeToString(append(body, testKey.mac(body)...))
}

// A token is read as what was signed, and its text can be part of a link.
//
// spec: B-23
func TestATokenIsReadAsItWasSigned(t *testing.T) {
	for _, c := range []Claims{
		claims, {}, {Purpose: strings.Repeat("p", 300), Detail: "\x00\xff\n "},
		{Expires: time.Date(9999, 1, 1, 0, 0, 0, 1, time.UTC)},
		{Expires: now.Add(time.Nanosecond).In(time.FixedZone("x", 3600))},
	} {
		text := Sign(testKey, c)
		if !regexp.MustCompile(`^[A-Za-z0-9_-]+$`).MatchString(text) {
			t.Errorf("%q is not fit for a link", text)
		}
		got, err := Verify(Keys{NewKey(), testKey, NewKey()}, c.Purpose, text, now)
		if !c.Expires.Equal(got.Expires) {
			t.Errorf("expires %v, want %v", got.Expires, c.Expires)
		}
		got.Expires = c.Expires
		if err != nil || got != c {
			t.Errorf("%+v, %v; want %+v", got, err, c)
		}
	}
}

// The text of given claims stays the same, so that links in mails outlive a new build.
//
// spec: B-23
func TestTheFormOfATokenStays(t *testing.T) {
	const want = "pdt_AQhhYmNkZWZnaAhjYWxsYmFjawVhYmMtMQY3L2NhcmQBeAEAAAAAcN1jNQAAAAZOXrFr" +
		"O8lLr4wo9k6UXqV2MkXgREAbmx1OVzT3PCXbyg"
	if got := Sign(testKey, claims); got != want {
		t.Errorf("the text is %s", got)
	}
}

// Each way in which a token is of no use has an error of its own, and returns no claims.
//
// spec: B-23
func TestATokenIsRefused(t *testing.T) {
	text := Sign(testKey, claims)
	other := Key{id: testKey.id, secret: bytes.Repeat([]byte{8}, secretSize)}
	unsigned := encode(testKey.id, claims)
	for _, c := range []struct {
		name, text string
		keys       Keys
		purpose    string
		now        time.Time
		want       error
		code       journal.Code
	}{
		{name: "empty", want: ErrMalformed},
		{name: "no token", text: "hello", want: ErrMalformed},
		{name: "only the prefix", text: prefix, want: ErrMalformed},
		{name: "another prefix", text: "pdx_" + text[4:], want: ErrMalformed},
		{name: "cut off", text: text[:40], want: ErrMalformed},
		{name: "padded", text: text + "=", want: ErrMalformed},
		{name: "a line break", text: text[:20] + "\n" + text[20:], want: ErrMalformed},
		{name: "a space", text: text + " ", want: ErrMalformed},
		{name: "too long", text: Sign(testKey, Claims{Detail: strings.Repeat("x", maxText)}),
			want: ErrMalformed},
		{name: "another version", text: signed(append([]byte{2}, unsigned[1:]...)),
			want: ErrMalformed},
		{name: "a longer length than needed", text: signed(append([]byte{1, 0x88, 0},
			unsigned[2:]...)), want: ErrMalformed},
		{name: "something behind", text: signed(append(unsigned[:len(unsigned):len(unsigned)], 0)),
			want: ErrMalformed},
		{name: "no key", text: text, keys: Keys{}, want: ErrForged},
		{name: "another secret", text: text, keys: Keys{other}, want: ErrForged},
		{name: "another key", text: text, keys: Keys{NewKey()}, want: ErrForged},
		{name: "no signature", want: ErrForged,
			text: prefix + encoding.EncodeToString(append(unsigned, make([]byte, macSize)...))},
		{name: "another purpose", text: text, purpose: "approval", want: ErrPurpose},
		{name: "expired", text: text, now: claims.Expires, want: ErrExpired,
			code: journal.CodeTimedOut},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.keys == nil {
				c.keys = Keys{testKey}
			}
			if c.purpose == "" {
				c.purpose = "callback"
			}
			if c.now.IsZero() {
				c.now = now
			}
			if c.code == "" {
				c.code = journal.CodeInvalid
			}
			got, err := Verify(c.keys, c.purpose, c.text, c.now)
			if !errors.Is(err, c.want) || journal.CodeOf(err) != c.code || got != (Claims{}) {
				t.Errorf("%+v, %v; want %v", got, err, c.want)
			}
		})
	}
}

// Whatever single bit of a token is changed, it is refused.
//
// spec: B-23
func TestNoBitOfATokenCanBeChanged(t *testing.T) {
	text := Sign(testKey, claims)
	for i := range len(text) {
		for bit := range 8 {
			b := []byte(text)
			b[i] ^= 1 << bit
			if _, err := Verify(Keys{testKey}, "callback", string(b), now); err == nil {
				t.Fatalf("bit %d of byte %d may be changed", bit, i)
			}
		}
	}
}

// A key prints as its ID, however it is printed.
//
// spec: B-23
func TestAKeyDoesNotShowItsSecret(t *testing.T) {
	var logged bytes.Buffer
	k := testKey
	slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "key", k, "keys", Keys{k})
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "key", k, "keys", Keys{k})
	coded, err := json.Marshal([]any{k, Keys{k}})
	if err != nil {
		t.Fatal(err)
	}
	out := logged.String() + string(coded)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d", "%q"} {
		out += fmt.Sprintf(verb+verb+verb, k, &k, Keys{k}) + "\n"
	}
	for _, secret := range []string{
		string(k.secret), fmt.Sprintf("%x", k.secret[:4]), "7 7 7", "0x7, 0x7", `\a\a`,
		base64.StdEncoding.EncodeToString(k.secret)[:8],
	} {
		if strings.Contains(out, secret) {
			t.Errorf("%q is in\n%s", secret, out)
		}
	}
	if !strings.Contains(out, "key abcdefgh") {
		t.Errorf("the ID is not in\n%s", out)
	}
}

// FuzzVerify demands that no text is read that was not signed, and that a text which is read is the
// only one of its claims.
//
// spec: B-23
func FuzzVerify(f *testing.F) {
	f.Add(Sign(testKey, claims), []byte{})
	f.Add(Sign(NewKey(), claims), encode(testKey.id, claims))
	f.Add("", []byte{1})
	f.Add(prefix, append(encode(testKey.id, Claims{}), 0))
	f.Fuzz(func(t *testing.T, text string, body []byte) {
		for _, text := range []string{text, signed(body)} {
			c, err := Verify(Keys{testKey}, "callback", text, now)
			switch {
			case err != nil && c != Claims{}:
				t.Errorf("claims with an error: %+v", c)
			case err == nil && Sign(testKey, c) != text:
				t.Errorf("%q has the claims of %q", text, Sign(testKey, c))
			}
		}
	})
}
