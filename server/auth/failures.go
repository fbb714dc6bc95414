package auth

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// The failed attempts that one source may make: a burst, and then one each so often.
const (
	failuresAtOnce = 20
	failureEvery   = 6 * time.Second
)

// maxSources bounds the sources that are remembered.
const maxSources = 10_000

// Failures limits failed attempts to show a credential, by source. A valid credential is never
// refused, so that nobody locks others out. The zero value is ready to use. Many goroutines may
// call its methods.
type Failures struct {
	mu      sync.Mutex
	sources map[netip.Addr]*rate.Limiter
}

// Failed counts a failed attempt from an address. It reports whether the source has made too many,
// and the time after which it may try again.
func (f *Failures) Failed(from netip.Addr, now time.Time) (tooMany bool, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	from = network(from)
	l := f.sources[from]
	if l == nil {
		if len(f.sources) >= maxSources {
			f.forget(now)
		}
		if f.sources == nil {
			f.sources = map[netip.Addr]*rate.Limiter{}
		}
		l = rate.NewLimiter(rate.Every(failureEvery), failuresAtOnce)
		f.sources[from] = l
	}
	return !l.AllowN(now, 1), failureEvery
}

// forget removes the sources that may fail as often as a new one, or all if there is none.
func (f *Failures) forget(now time.Time) {
	for from, l := range f.sources {
		if l.TokensAt(now) >= failuresAtOnce {
			delete(f.sources, from)
		}
	}
	if len(f.sources) >= maxSources {
		clear(f.sources)
	}
}

// network returns the part of an address that one source has: a whole IPv4 address, and the first
// half of an IPv6 address, of which one subscriber has all.
func network(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if p, err := a.Prefix(64); a.Is6() && err == nil {
		return p.Addr()
	}
	return a
}
