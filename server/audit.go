package server

import (
	"context"
	"log/slog"
	"net/http"
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

// mostActs is how many acts a server remembers.
const mostActs = 1000

// acts are the newest acts of a server. The zero value has none.
type acts struct {
	mu    sync.Mutex
	ring  []Act
	total int64 // that there ever were
}

func (a *acts) add(act Act) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.ring) < mostActs {
		a.ring = append(a.ring, act)
	} else {
		a.ring[a.total%mostActs] = act
	}
	a.total++
}

// newest returns the acts that are such, newest first, at most some, and how many of all acts are
// not remembered any more.
func (a *acts) newest(limit int, such func(Act) bool) (all []Act, forgotten int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	kept := int64(len(a.ring))
	for i := a.total - 1; i >= a.total-kept && len(all) < limit; i-- {
		if act := a.ring[i%mostActs]; such(act) {
			all = append(all, act)
		}
	}
	return all, a.total - kept
}

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
		about: "It remembers the newest 1,000. Other servers of the database have others, and " +
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
