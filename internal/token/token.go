package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/journal"
)

// Claims are what a token states. Any texts are valid.
type Claims struct {
	Purpose string    // what it is for; a token of another purpose is refused
	Run     string    // the ID of the run that it is about
	Subject string    // what of the run: a wait, an approval
	Detail  string    // what else the purpose needs
	Expires time.Time // to the nanosecond; zero means never
}

// What is wrong with a token. The errors of [Verify] are of the type [journal.Error] and wrap one
// of these.
var (
	ErrMalformed = errors.New("the text is not a token")
	ErrForged    = errors.New("no key of this database has signed the token")
	ErrPurpose   = errors.New("the token is for something else")
	ErrExpired   = errors.New("the token has expired")
)

const (
	prefix  = "pdt_"
	version = 1
	// maxText is the longest text that is read.
	maxText = 16 << 10
	macSize = sha256.Size
)

// domain separates the signatures from any others that are made with the same key.
const domain = "perdure token v1\x00"

var encoding = base64.RawURLEncoding.Strict()

// Sign returns the text of a token.
func Sign(k Key, c Claims) string {
	body := encode(k.id, c)
	return prefix + encoding.EncodeToString(append(body, k.mac(body)...))
}

// Verify returns the claims of a token that one of the keys has signed for that purpose, and that
// has not expired. It returns an error otherwise, which wraps ErrMalformed, ErrForged, ErrPurpose
// or ErrExpired. Claims are returned only without an error.
func Verify(keys Keys, purpose, text string, now time.Time) (Claims, error) {
	c, err := verify(keys, purpose, text, now)
	if err == nil {
		return c, nil
	}
	e := &journal.Error{Code: journal.CodeInvalid, Op: "verify token", Err: err}
	switch {
	case errors.Is(err, ErrExpired):
		e.Code = journal.CodeTimedOut
		e.Hint = "it was valid until " + c.Expires.UTC().Format(time.RFC3339)
	case errors.Is(err, ErrMalformed):
		e.Hint = "a token begins with " + prefix + ": is it whole?"
	case errors.Is(err, ErrForged):
		e.Hint = "is it of another database, or was its key revoked?"
	}
	return Claims{}, e
}

func verify(keys Keys, purpose, text string, now time.Time) (Claims, error) {
	coded, ok := strings.CutPrefix(text, prefix)
	if !ok || len(text) > maxText || strings.ContainsAny(coded, "\r\n") { // the decoder skips these
		return Claims{}, ErrMalformed
	}
	signed, err := encoding.DecodeString(coded)
	if err != nil || len(signed) < macSize {
		return Claims{}, ErrMalformed
	}
	body, mac := signed[:len(signed)-macSize], signed[len(signed)-macSize:]
	id, c, ok := decode(body)
	if !ok {
		return Claims{}, ErrMalformed
	}
	at := slices.IndexFunc(keys, func(k Key) bool { return k.id == id })
	if at < 0 || !hmac.Equal(keys[at].mac(body), mac) {
		return Claims{}, ErrForged
	}
	if c.Purpose != purpose {
		return Claims{}, ErrPurpose
	}
	if !c.Expires.IsZero() && !now.Before(c.Expires) {
		return c, ErrExpired
	}
	return c, nil
}

func (k Key) mac(body []byte) []byte {
	h := hmac.New(sha256.New, k.secret)
	h.Write([]byte(domain))
	h.Write(body)
	return h.Sum(nil)
}

// encode returns the canonical form of a key's ID and claims: the version, then each text after its
// length, then the time of expiry in two parts.
func encode(id string, c Claims) []byte {
	b := []byte{version}
	for _, s := range []string{id, c.Purpose, c.Run, c.Subject, c.Detail} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	if c.Expires.IsZero() {
		return append(b, 0)
	}
	b = append(b, 1)
	b = binary.BigEndian.AppendUint64(b, uint64(c.Expires.Unix()))
	return binary.BigEndian.AppendUint32(b, uint32(c.Expires.Nanosecond()))
}

// decode reads the form of encode, and no other form of the same claims.
func decode(body []byte) (id string, c Claims, ok bool) {
	b := body
	if len(b) == 0 || b[0] != version {
		return "", c, false
	}
	b = b[1:]
	for _, s := range []*string{&id, &c.Purpose, &c.Run, &c.Subject, &c.Detail} {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return "", c, false
		}
		*s, b = string(b[size:size+int(n)]), b[size+int(n):]
	}
	if len(b) == 13 {
		c.Expires = time.Unix(int64(binary.BigEndian.Uint64(b[1:])),
			int64(binary.BigEndian.Uint32(b[9:]))).UTC()
	}
	return id, c, string(encode(id, c)) == string(body)
}
