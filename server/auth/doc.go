// Package auth decides who a request to the server comes from, and what they may do.
//
// A caller has a [Role]: a viewer reads, an operator also starts runs and acts on them, and an
// admin also sees secrets and changes what guards the database. A request shows a token in the
// header Authorization, or the cookie of a session, which a token has begun. Tokens are random, and
// only their hashes are stored.
//
// An application with users of its own implements [Authenticator] instead.
package auth

import (
	"errors"
	"net/http"
)

// A Role limits the actions of a caller. Each role may do what the roles before it may.
type Role int

// The roles. Public is the zero value: a caller without a credential.
const (
	Public Role = iota
	Viewer
	Operator
	Admin
)

var roles = [...]string{"public", "viewer", "operator", "admin"}

// String returns the name of the role.
func (r Role) String() string {
	if r < 0 || int(r) >= len(roles) {
		return "unknown"
	}
	return roles[r]
}

// ParseRole returns the role of that name: viewer, operator or admin.
func ParseRole(name string) (Role, bool) {
	for r := Viewer; r <= Admin; r++ {
		if r.String() == name {
			return r, true
		}
	}
	return Public, false
}

// An Identity is the sender of a request.
type Identity struct {
	Name string // for the audit, and as the operator in journals
	Role Role
	// Session reports that the request has shown the cookie of a session.
	Session bool
}

// Errors of an [Authenticator].
var (
	// ErrNoCredential is returned for a request that shows no credential.
	ErrNoCredential = errors.New("auth: no credential")
	// ErrBadCredential is returned for a credential that is not known, or not any more.
	ErrBadCredential = errors.New("auth: the credential is not valid")
)

// An Authenticator returns the sender of a request. Many goroutines may call it.
//
// For a request without a credential it returns ErrNoCredential, for one that is not valid
// ErrBadCredential; the server answers both with 401. Another error is answered with 503: nobody
// can be told now. The server asks again every half minute while an answer goes on, so that a
// caller whose credential is revoked is not served much longer. A request for such an answer has a
// context that is [Unattended]: it should keep no session alive.
type Authenticator interface {
	Authenticate(r *http.Request) (Identity, error)
}
