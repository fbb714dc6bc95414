package server

import (
	"log/slog"
	"net/http"
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

// audit reports an action that has its answer.
func (s *Server) audit(r *http.Request, rt route, caller auth.Identity, about string,
	status int) {
	act := Act{
		At: time.Now().UTC(), By: caller.Name, Role: caller.Role.String(),
		From: peerOf(r).String(), Action: rt.name, Path: about, Status: status,
	}
	if s.o.Audit != nil {
		s.o.Audit(act)
		return
	}
	s.log.LogAttrs(r.Context(), slog.LevelInfo, "perdure: action", slog.String("by", act.By),
		slog.String("role", act.Role), slog.String("from", act.From),
		slog.String("action", act.Action), slog.String("path", act.Path),
		slog.Int("status", act.Status))
}
