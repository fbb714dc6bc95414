package server_test

import (
	"testing"

	"github.com/perdure/perdure/server/auth"
)

// The tokens of the people of the tests. They are secrets: no log and no answer has them.
const (
	viewerToken   = "pdr_viewer-canary-7f3a"
	operatorToken = "pdr_operator-canary-7f3a"
	adminToken    = "pdr_admin-canary-7f3a"
)

// people returns an authenticator that knows vera, a viewer, oskar, an operator, and ada, an admin.
func people(t testing.TB) *auth.Tokens {
	t.Helper()
	tokens := &auth.Tokens{}
	if err := tokens.Set(credentials()); err != nil {
		t.Fatal(err)
	}
	return tokens
}

func credentials() []auth.Credential {
	return []auth.Credential{
		{Name: "vera", Role: auth.Viewer, Hash: auth.Hash(viewerToken)},
		{Name: "oskar", Role: auth.Operator, Hash: auth.Hash(operatorToken)},
		{Name: "ada", Role: auth.Admin, Hash: auth.Hash(adminToken)},
	}
}
