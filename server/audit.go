package server

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure/server/auth"
)

// An Act is an action that somebody has asked for over the API.
type Act struct {
	At     time.Time `json:"at"`
	By     string    `json:"by"`
	Role   string    `json:"role"`
	From   string    `json:"from"`   // the address of the caller
	Action string    `json:"action"` // the operation, such as cancel-execution
	Path   string    `json:"path"`   // the address, or for a call to the store what it is about
	Status int       `json:"status"` // of the answer
}

// audit reports an action, before the first byte of its answer.
func (s *Server) audit(r *http.Request, rt route, caller auth.Identity, about string,
	status int) {
	act := Act{
		At: time.Now().UTC(), By: caller.Name, Role: caller.Role.String(),
		From: peerOf(r).String(), Action: rt.name, Path: about, Status: status,
	}
	s.acts.add(act)
	if s.o.Audit != nil {
		s.o.Audit(act)
		return
	}
	act.LogTo(s.log)
}

// LogTo logs an action at level info.
func (a Act) LogTo(log *slog.Logger) {
	log.LogAttrs(context.Background(), slog.LevelInfo, "perdure: action", slog.String("by", a.By),
		slog.String("role", a.Role), slog.String("from", a.From),
		slog.String("action", a.Action), slog.String("path", a.Path),
		slog.Int("status", a.Status))
}

// mostActs is how many acts a server remembers, and as many of callers without a credential.
const mostActs = 1000

// acts are the newest acts of a server. The zero value has none.
//
// What callers without a credential ask for is kept apart, so that they cannot make the server
// forget the acts of others.
type acts struct {
	mu             sync.Mutex
	known, unknown ring
}

func (a *acts) add(act Act) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if act.By == "" {
		a.unknown.add(act)
	} else {
		a.known.add(act)
	}
}

// newest returns the acts that are such, newest first, at most some, and how many of all acts are
// not remembered any more.
func (a *acts) newest(limit int, such func(Act) bool) (all []Act, forgotten int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all = slices.Concat(a.known.newest(limit, such), a.unknown.newest(limit, such))
	slices.SortStableFunc(all, func(x, y Act) int { return y.At.Compare(x.At) })
	return all[:min(limit, len(all))], a.known.forgotten() + a.unknown.forgotten()
}

// A ring has the newest of some acts.
type ring struct {
	acts  []Act
	total int64 // that there ever were
}

func (r *ring) add(act Act) {
	if len(r.acts) < mostActs {
		r.acts = append(r.acts, act)
	} else {
		r.acts[r.total%mostActs] = act
	}
	r.total++
}

func (r *ring) newest(limit int, such func(Act) bool) (all []Act) {
	for i := r.total - 1; i >= r.forgotten() && len(all) < limit; i-- {
		if act := r.acts[i%mostActs]; such(act) {
			all = append(all, act)
		}
	}
	return all
}

func (r *ring) forgotten() int64 { return r.total - int64(len(r.acts)) }

// Acts are the newest acts of one server.
type Acts struct {
	Items     []Act     `json:"items" nullable:"false"`
	Since     time.Time `json:"since" doc:"the start of the server"`
	Forgotten int64     `json:"forgotten" doc:"how many older acts it does not remember"`
}

// remembered registers the acts that the server remembers. They show who calls from where, and
// whose credentials were refused, so they are for admins.
func (s stateRoutes) remembered() {
	add(s.Server, operation{
		id: "list-acts", method: http.MethodGet, path: "/audit", group: "operations",
		summary: "The acts that this process was asked for since its start, newest first",
		need:    auth.Admin,
		about: "It remembers the newest 1,000, and 1,000 of callers without a credential. Other " +
			"servers of the database have others, and " +
			"the log or the file of the audit has them all.",
	}, func(_ context.Context, in *struct {
		Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"the longest list"`
		By     string `query:"by" maxLength:"255" doc:"the name of a caller"`
		Action string `query:"action" maxLength:"100" doc:"such as cancel-execution"`
	}) (Acts, error) {
		all, forgotten := s.acts.newest(in.Limit, func(a Act) bool {
			return (in.By == "" || in.By == a.By) && (in.Action == "" || in.Action == a.Action)
		})
		return Acts{listOf(all, "").Items, s.began.UTC(), forgotten}, nil
	})
}
