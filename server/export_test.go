package server

import (
	"net/http"

	"github.com/perdure/perdure/server/auth"
)

// Base is the path under which the operations are.
const Base = base

// A Route is a route as tests see it.
type Route struct {
	Name             string
	Need             auth.Role
	Audited, IsJSON  bool
	Live, BoundsBody bool
}

// Routes returns the routes, by pattern.
func (s *Server) Routes() map[string]Route {
	all := map[string]Route{}
	for pattern, r := range s.table {
		all[pattern] = Route{r.name, r.need, r.audited, r.json, r.live, r.raw}
	}
	return all
}

// Pattern returns the pattern of the route that takes a request.
func (s *Server) Pattern(r *http.Request) string {
	_, pattern := s.find(aliased(r))
	return pattern
}
