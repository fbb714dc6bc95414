package world

import (
	"errors"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
)

// CodeIs fails the test if err does not have that code.
func CodeIs(t testing.TB, err error, code journal.Code) {
	t.Helper()
	if !errors.Is(err, &perdure.Error{Code: code}) {
		t.Errorf("got error %v, want code %s", err, code)
	}
}

// NoError fails the test if there is an error.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// Must returns the value of a call that must not fail, as in Must[int](t)(f()).
func Must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
