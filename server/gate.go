package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/server/auth"
)

// ServeHTTP implements [http.Handler]. Each request passes the same gate, before a route is chosen:
// its host, its form, its origin, its caller, what the caller may do, and its body.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guarded(w.Header())
	if p := s.refuse(r); p != nil {
		p.write(w)
		return
	}
	r = aliased(r)
	h, pattern := s.find(r)
	rt, known := s.table[pattern]
	page := s.isPage(r, pattern)
	switch {
	case page:
		rt.need = auth.Public
	case !known:
		rt.need = auth.Viewer
	}
	if rt.live || r.Header.Get(unattendedHeader) != "" {
		r = r.WithContext(auth.Unattended(r.Context()))
	}
	caller, p := s.identify(w, r, rt.need)
	if p == nil && page {
		s.o.Page.ServeHTTP(w, r)
		return
	}
	if p == nil && pattern == "" {
		nowhere(h, w, r)
		return
	}
	if p == nil {
		if p = s.permit(r, rt, caller); p != nil && rt.audited {
			s.audit(r, rt, caller, r.URL.Path, p.Status)
		}
	}
	if p != nil {
		p.write(w)
		return
	}
	s.serve(w, r, rt, caller)
}

// find returns the handler of a request and its pattern; an empty pattern if no route takes it. An
// address has one form: others are not redirected to it.
func (s *Server) find(r *http.Request) (http.Handler, string) {
	if at := r.URL.EscapedPath(); path.Clean(at) != at {
		return http.NotFoundHandler(), ""
	}
	return s.mux.Handler(r)
}

// parts are the first segments of addresses that are no page's, also where a part is switched off.
var parts = map[string]bool{
	"api": true, "healthz": true, "readyz": true, "metrics": true, "openapi.json": true,
	"docs": true, "mcp": true,
}

// isPage reports whether the page answers a request, which the route of a pattern takes otherwise.
func (s *Server) isPage(r *http.Request, pattern string) bool {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if s.o.Page == nil || pattern != "" || !reads {
		return false
	}
	at := r.URL.EscapedPath()
	first, _, _ := strings.Cut(strings.TrimPrefix(at, "/"), "/")
	return path.Clean(at) == at && !parts[first]
}

// serve answers a request that its caller may send.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, rt route, caller auth.Identity) {
	// The rest of the request is the caller's own: its context has who it is.
	r = r.WithContext(context.WithValue(auth.NewContext(r.Context(), caller), whoKey{},
		&caller))
	if !rt.audited {
		s.deliver(w, r, rt)
		return
	}
	seen := &statusWriter{ResponseWriter: w, first: func(status int) {
		s.audit(r, rt, caller, r.URL.Path, status)
	}}
	status := http.StatusInternalServerError // if it panics
	defer func() {
		if seen.status == 0 {
			seen.first(status)
		}
	}()
	s.deliver(seen, r, rt)
	status = http.StatusOK
}

// deliver answers a request when its body has arrived. The body counts until the answer is given.
func (s *Server) deliver(w http.ResponseWriter, r *http.Request, rt route) {
	room := &s.bodies
	if rt.need == auth.Public {
		room = &s.others
	}
	size := s.sizeOf(r, rt)
	if !room.take(size) {
		full(w)
		return
	}
	defer func() { room.give(size) }()
	if p := s.arrive(w, r, rt); p != nil {
		p.write(w)
		return
	}
	if !rt.raw { // it is known now
		room.give(size - r.ContentLength)
		size = r.ContentLength
	}
	s.mux.ServeHTTP(w, r)
}

// permit returns the problem of a request that its caller may not send.
func (s *Server) permit(r *http.Request, rt route, caller auth.Identity) *Problem {
	if caller.Role < rt.need {
		return problem(http.StatusForbidden, codeForbidden, "the role "+caller.Role.String()+
			" is not enough: this needs the role "+rt.need.String(),
			"use a credential with that role")
	}
	foreign := rt.live && s.origins.Check(changing(r)) != nil
	// A browser says where a request that changes something comes from. One that does not say it
	// must not use a cookie.
	mute := rt.audited && caller.Session && r.Header.Get("Origin") == "" &&
		r.Header.Get("Sec-Fetch-Site") == ""
	if foreign || mute {
		return foreignOrigin()
	}
	return nil
}

// changing returns a request as one that changes something, for the check of its origin.
func changing(r *http.Request) *http.Request {
	copied := *r
	copied.Method = http.MethodPost
	return &copied
}

func foreignOrigin() *Problem {
	return problem(http.StatusForbidden, codeForeignOrigin,
		"a page of another origin may not send this", "")
}

// arrive reads the body of a request, and checks that it is JSON as it is. When it has arrived,
// its time does not bound the answer any more. Of a body that does not, the rest has no time.
func (s *Server) arrive(w http.ResponseWriter, r *http.Request, rt route) *Problem {
	conn := http.NewResponseController(w)
	if rt.raw || r.ContentLength == 0 {
		_ = conn.SetReadDeadline(time.Time{}) // not every writer has it
		return nil
	}
	if rt.json {
		if p := checkBody(r); p != nil {
			return p
		}
	}
	_ = conn.SetReadDeadline(time.Now().Add(readTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.o.MaxBody))
	var large *http.MaxBytesError
	var late net.Error
	switch {
	case errors.As(err, &large):
		return problem(http.StatusRequestEntityTooLarge, string(journal.CodeTooLarge),
			"the body is too large", "")
	case errors.As(err, &late) && late.Timeout():
		return problem(http.StatusRequestTimeout, string(journal.CodeTimedOut),
			"the body did not arrive in time", "send the request again")
	case err != nil:
		return problem(http.StatusBadRequest, string(journal.CodeInvalid),
			"the body did not arrive", "")
	}
	_ = conn.SetReadDeadline(time.Time{})
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return nil
}

// instances is another name of the executions.
const instances = base + "/workflows/instances"

// aliased returns a request under the one name that its address has here.
func aliased(r *http.Request) *http.Request {
	rest, is := strings.CutPrefix(r.URL.EscapedPath(), instances)
	if !is || rest != "" && rest[0] != '/' {
		return r
	}
	to := *r.URL
	to.RawPath = base + "/executions" + rest
	to.Path, _ = url.PathUnescape(to.RawPath) // it was unescaped before
	copied := *r
	copied.URL = &to
	return &copied
}

// guarded sets the headers that keep a browser from doing more with an answer than show it.
func guarded(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// refuse returns the problem of a request that nobody may send.
func (s *Server) refuse(r *http.Request) *Problem {
	if s.hosts != nil && !s.hosts[hostOf(r.Host)] {
		return problem(http.StatusMisdirectedRequest, codeForeignHost,
			"this server is not called by that name",
			"call it by an address of its own, or set the names by which it may be called: hosts")
	}
	if !plain(r.URL.Path) {
		return problem(http.StatusBadRequest, string(journal.CodeInvalid),
			"the path is not valid: it has control characters, or is no UTF-8", "")
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return problem(http.StatusBadRequest, string(journal.CodeInvalid),
			"the query is not valid: "+err.Error(), "")
	}
	for name, values := range query {
		for _, v := range append(values, name) {
			if !plain(v) {
				return problem(http.StatusBadRequest, string(journal.CodeInvalid),
					"the query is not valid: it has control characters, or is no UTF-8", "")
			}
		}
		if len(values) > 1 && !repeated[name] {
			return problem(http.StatusBadRequest, string(journal.CodeInvalid),
				"the parameter comes twice in the query", "")
		}
	}
	if err := s.origins.Check(r); err != nil {
		return foreignOrigin()
	}
	return nil
}

// repeated are the parameters of queries that may come more than once.
var repeated = map[string]bool{"status": true, "workflow": true, "pattern": true}

func plain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return r < ' ' || r == 0x7f
	})
}

// allowed returns the names by which the server may be called; nil for all.
func allowed(o Options) map[string]bool {
	if o.Authenticator != nil && len(o.Hosts) == 0 {
		return nil
	}
	all := map[string]bool{}
	for _, h := range o.Hosts {
		all[hostOf(h)] = true
	}
	if o.Authenticator == nil {
		for _, h := range []string{"localhost", "127.0.0.1", "::1"} {
			all[h] = true
		}
	}
	return all
}

// hostOf returns a host without its port and without the dot at its end, in lower case.
func hostOf(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// identify returns who a request comes from. A route that needs no role is for everybody.
func (s *Server) identify(w http.ResponseWriter, r *http.Request, need auth.Role) (auth.Identity,
	*Problem) {
	peer := peerOf(r)
	if s.o.Authenticator == nil {
		if !peer.IsLoopback() {
			return auth.Identity{}, problem(http.StatusForbidden, codeForbidden,
				"this server has no credentials, so it answers only callers on its own machine",
				"give the server credentials")
		}
		return auth.Identity{Name: "local", Role: auth.Admin}, nil
	}
	who, err := s.o.Authenticator.Authenticate(r)
	switch {
	case err == nil, need == auth.Public:
		return who, nil
	case !errors.Is(err, auth.ErrNoCredential) && !errors.Is(err, auth.ErrBadCredential):
		s.log.Error("perdure: nobody can be authenticated", "error", err)
		return who, problem(http.StatusServiceUnavailable, string(journal.CodeUnavailable),
			"the server cannot tell who you are now", "send the request again later")
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="perdure"`)
	if errors.Is(err, auth.ErrNoCredential) {
		return who, problem(http.StatusUnauthorized, codeUnauthenticated,
			"the request shows no credential",
			"send the header Authorization: Bearer TOKEN; an operator makes tokens")
	}
	return who, s.badCredential(w, peer)
}

// badCredential returns the problem of a credential that is not valid, and counts it.
func (s *Server) badCredential(w http.ResponseWriter, peer netip.Addr) *Problem {
	if tooMany, wait := s.failed.Failed(peer, time.Now()); tooMany {
		w.Header().Set("Retry-After", strconv.Itoa(int(wait.Seconds())))
		return problem(http.StatusTooManyRequests, codeTooMany,
			"too many requests from this address have shown credentials that are not valid",
			"wait, and check the token")
	}
	return problem(http.StatusUnauthorized, codeUnauthenticated,
		"the credential is not valid, or not any more", "ask an operator for a new token")
}

// peerOf returns the address that a request comes from. What proxies say in headers does not count.
func peerOf(r *http.Request) netip.Addr {
	if p, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		return p.Addr().Unmap()
	}
	return netip.Addr{}
}

// nowhere answers a request that no route takes, by a problem instead of the text of the standard
// library.
func nowhere(h http.Handler, w http.ResponseWriter, r *http.Request) {
	seen := &statusWriter{ResponseWriter: discard{w.Header()}}
	h.ServeHTTP(seen, r)
	if seen.code() == http.StatusMethodNotAllowed {
		problem(http.StatusMethodNotAllowed, codeUnsupported, "the method "+r.Method+
			" is not allowed here: allowed is "+w.Header().Get("Allow"), "").write(w)
		return
	}
	noSuchAddress("openapi.json lists the addresses, and docs shows them").write(w)
}

func noSuchAddress(hint string) *Problem {
	return problem(http.StatusNotFound, string(journal.CodeNotFound), "there is no such address",
		hint)
}

// NotFound returns a handler that answers each request as a [Server] does if there is no such
// address, with a hint for the caller. It is for what is around a Server.
func NotFound(hint string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		guarded(w.Header())
		noSuchAddress(hint).write(w)
	})
}

// checkBody returns the problem of a body that is not JSON in UTF-8 as it is.
func checkBody(r *http.Request) *Problem {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset := params["charset"]
	if err != nil || kind != "application/json" || charset != "" &&
		!strings.EqualFold(charset, "utf-8") {
		return problem(http.StatusUnsupportedMediaType, codeUnsupported,
			"the body must be JSON in UTF-8", "send the header Content-Type: application/json")
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return problem(http.StatusUnsupportedMediaType, codeUnsupported,
			"a compressed body is not accepted", "send it as it is")
	}
	return nil
}

// A statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
	first  func(status int) // called before the first byte is written; may be nil
}

func (w *statusWriter) WriteHeader(code int) {
	if w.status == 0 && code >= 200 {
		w.status = code
		if w.first != nil {
			w.first(code)
		}
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController].
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *statusWriter) code() int {
	if w.status == 0 {
		return http.StatusOK
	}
	return w.status
}

// discard is a writer of headers only.
type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}
