package server

import (
	"net/http"
	"sync"

	"github.com/perdure/perdure/journal"
)

// The bytes of bodies that are in memory at one time: bodies of callers with a role, and of those
// without one, who so cannot keep the others out.
const (
	bodiesOfCallers = 256 << 20
	bodiesOfOthers  = 64 << 20
)

// A budget is a number of bytes that requests share.
type budget struct {
	mu   sync.Mutex
	left int64
}

// take takes bytes, and reports whether there were as many. None are always there.
func (b *budget) take(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > 0 && n > b.left {
		return false
	}
	b.left -= n
	return true
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
}

// sizeOf returns how many bytes the body of a request may take. One that does not say it may be as
// long as the longest.
func (s *Server) sizeOf(r *http.Request, rt route) int64 {
	switch {
	case r.ContentLength < 0:
		return s.o.MaxBody
	case rt.raw: // its handler has a limit of its own
		return min(r.ContentLength, bodiesOfCallers)
	}
	return min(r.ContentLength, s.o.MaxBody)
}

// full answers a request for whose body there is no room now.
func full(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	problem(http.StatusServiceUnavailable, string(journal.CodeUnavailable),
		"the server has no room for the body of the request now", "send it again later").write(w)
}
