package server

import (
	"context"
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

// audit reports an action, before the first byte of its answer.
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
	act.LogTo(s.log)
}

// LogTo logs an action at level info.
func (a Act) LogTo(log *slog.Logger) {
	log.LogAttrs(context.Background(), slog.LevelInfo, "perdure: action", slog.String("by", a.By),
		slog.String("role", a.Role), slog.String("from", a.From),
		slog.String("action", a.Action), slog.String("path", a.Path),
		slog.Int("status", a.Status))
}
