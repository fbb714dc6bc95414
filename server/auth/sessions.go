package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"sync"
	"time"
)

// CookieName is the name of the cookie of a session.
const CookieName = "perdure_session"

// The longest life of a session, in all and without a request that somebody has sent.
const (
	sessionLife = 7 * 24 * time.Hour
	sessionIdle = 12 * time.Hour
)

// maxSessions bounds the sessions of one server. With more, the one that was used the longest time
// ago ends.
const maxSessions = 10_000

// Sessions are the sessions of one server, in memory: they end with its process. The zero value is
// ready to use. Many goroutines may call its methods.
type Sessions struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]*session // by the hash of the cookie's value
}

type session struct {
	token       string // the hash of the token that has begun it
	began, used time.Time
}

func (s *Sessions) begin(token string, secure bool) *http.Cookie {
	var b [32]byte
	rand.Read(b[:]) // it never fails
	value := base64.RawURLEncoding.EncodeToString(b[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.all == nil {
		s.all = map[[sha256.Size]byte]*session{}
	}
	if len(s.all) >= maxSessions {
		s.forget(now)
	}
	s.all[sha256.Sum256([]byte(value))] = &session{token, now, now}
	return cookie(value, int(sessionLife/time.Second), secure)
}

// forget removes the sessions that are over, or else the one that was used the longest time ago.
func (s *Sessions) forget(now time.Time) {
	var oldest [sha256.Size]byte
	var last time.Time
	for key, one := range s.all {
		if one.isOver(now) {
			delete(s.all, key)
		} else if last.IsZero() || one.used.Before(last) {
			oldest, last = key, one.used
		}
	}
	if len(s.all) >= maxSessions {
		delete(s.all, oldest)
	}
}

func (s *session) isOver(now time.Time) bool {
	return now.Sub(s.began) > sessionLife || now.Sub(s.used) > sessionIdle
}

func cookie(value string, seconds int, secure bool) *http.Cookie {
	return &http.Cookie{
		Name: CookieName, Value: value, Path: "/", MaxAge: seconds, HttpOnly: true,
		Secure: secure, SameSite: http.SameSiteStrictMode,
	}
}

// find returns the hash of the token that has begun the session of a request.
func (s *Sessions) find(r *http.Request) (token string, err error) {
	shown, err := r.Cookie(CookieName)
	if err != nil {
		return "", ErrNoCredential
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.all[sha256.Sum256([]byte(shown.Value))]
	now := time.Now()
	if one == nil || one.isOver(now) {
		return "", ErrBadCredential
	}
	if !IsUnattended(r.Context()) {
		one.used = now
	}
	return one.token, nil
}

// End ends the session whose cookie a request shows, and returns the cookie that removes it.
func (s *Sessions) End(r *http.Request, secure bool) *http.Cookie {
	if shown, err := r.Cookie(CookieName); err == nil {
		s.mu.Lock()
		delete(s.all, sha256.Sum256([]byte(shown.Value)))
		s.mu.Unlock()
	}
	return cookie("", -1, secure)
}

// keep ends the sessions whose tokens are not known any more.
func (s *Sessions) keep(known func(token string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, one := range s.all {
		if !known(one.token) {
			delete(s.all, key)
		}
	}
}
