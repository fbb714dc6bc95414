package failure

import (
	"errors"
	"reflect"

	"github.com/perdure/perdure/journal"
)

// IsClass reports whether on is a class of errors that can be found in recorded errors: a
// registered sentinel, a value of a registered type, or a [journal.Error] with only a code.
func IsClass(on error) bool {
	return IsRegistered(on) || classType(on) != nil || isCode(on)
}

// InClass reports whether the chain of err has an error of the class on.
func InClass(err, on error) bool {
	if errors.Is(err, on) {
		return true
	}
	t := classType(on)
	return t != nil && !IsRegistered(on) && errors.As(err, reflect.New(t).Interface())
}

// classType returns the registered type of an error, or nil if it is not registered.
func classType(on error) reflect.Type {
	t := reflect.TypeOf(on)
	registry.RLock()
	defer registry.RUnlock()
	if t == nil || registry.typeNames[t] == "" {
		return nil
	}
	return t
}

// isCode reports whether on is an Error with only a code.
func isCode(on error) bool {
	e, ok := on.(*journal.Error) //nolint:errorlint // one that is wrapped says more than a code
	return ok && e != nil && e.Code != "" && e.Is(e)
}
