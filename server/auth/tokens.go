package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// A Credential is a token that the server accepts, by its hash.
type Credential struct {
	Name string
	Role Role
	Hash string // as [Hash] returns it
}

// prefix begins each token, so that a scanner for secrets knows it.
const prefix = "pdr_"

// maxToken is the longest token that is looked at, in bytes.
const maxToken = 512

// NewToken returns a token with 256 random bits, and its hash.
func NewToken() (token, hash string) {
	var b [32]byte
	rand.Read(b[:]) // it never fails
	token = prefix + base64.RawURLEncoding.EncodeToString(b[:])
	return token, Hash(token)
}

const hashed = "sha256:"

// Hash returns the hash of a token, as configurations have it. A token is random, so a fast hash
// without salt is as safe as a slow one.
func Hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hashed + hex.EncodeToString(sum[:])
}

// CheckHash returns an error for a text that no [Hash] returns.
func CheckHash(text string) error {
	digits, ok := strings.CutPrefix(text, hashed)
	if b, err := hex.DecodeString(digits); !ok || err != nil || len(b) != sha256.Size {
		return fmt.Errorf("the hash of a token is %s and 64 hexadecimal digits", hashed)
	}
	return nil
}

// Tokens is an [Authenticator] that accepts the tokens of some credentials, and the cookies of the
// sessions that they have begun. The zero value accepts none. Many goroutines may call its methods.
type Tokens struct {
	Sessions Sessions

	mu    sync.RWMutex
	known map[string]Credential // by hash
}

// Set replaces the credentials. It ends the sessions of those that are gone. The sessions of a
// credential with another role have that role from then on.
func (t *Tokens) Set(all []Credential) error {
	known := make(map[string]Credential, len(all))
	for _, c := range all {
		if err := CheckHash(c.Hash); err != nil {
			return fmt.Errorf("credential %q: %w", c.Name, err)
		}
		if c.Name == "" || c.Role < Viewer || c.Role > Admin {
			return fmt.Errorf("credential %q needs a name and a role", c.Name)
		}
		known[strings.ToLower(c.Hash)] = c
	}
	t.mu.Lock()
	t.known = known
	t.mu.Unlock()
	t.Sessions.keep(func(hash string) bool { _, ok := known[hash]; return ok })
	return nil
}

// Authenticate implements [Authenticator].
func (t *Tokens) Authenticate(r *http.Request) (Identity, error) {
	token, shown, err := bearer(r)
	switch {
	case err != nil:
		return Identity{}, err
	case shown:
		return t.find(Hash(token))
	}
	hash, err := t.Sessions.find(r)
	if err != nil {
		return Identity{}, err
	}
	who, err := t.find(hash)
	who.Session = true
	return who, err
}

// find returns whose token has that hash. How long that takes tells nothing about the tokens.
func (t *Tokens) find(hash string) (Identity, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	c, ok := t.known[hash]
	if !ok {
		return Identity{}, ErrBadCredential
	}
	return Identity{Name: c.Name, Role: c.Role}, nil
}

// bearer returns the token in the header Authorization, and reports whether there is that header.
func bearer(r *http.Request) (token string, shown bool, err error) {
	values := r.Header.Values("Authorization")
	switch len(values) {
	case 0:
		return "", false, nil
	case 1:
	default:
		return "", true, ErrBadCredential
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxToken {
		return "", true, ErrBadCredential
	}
	return token, true, nil
}

// Login begins a session for a token. It returns the cookie of the session. Each login makes a new
// session, so a cookie that somebody else has planted is worth nothing.
func (t *Tokens) Login(token string, secure bool) (*http.Cookie, Identity, error) {
	hash := Hash(token)
	who, err := t.find(hash)
	if err != nil {
		return nil, Identity{}, err
	}
	who.Session = true
	return t.Sessions.begin(hash, secure), who, nil
}
