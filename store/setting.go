package store

import (
	"fmt"
	"time"

	"github.com/perdure/perdure/journal"
)

// A Setting is a rule that an operator has set for all engines of a store, such as a limit or a
// pause. The store does not know its meaning. Kind and Name identify it.
//
// A change sets it, also a change of a client. Info returns all settings. The revisions rise in
// the order of the commits, and TakeDue returns the last one, so that engines notice a change
// without a query of their own.
type Setting struct {
	Kind, Name string
	Value      []byte // nil: it is not set any more
	By, Reason string
	At         time.Time
	Revision   int64 // set by the store; a group that is sent again may give another one
}

// TokenKey is the kind of the settings that keep the keys by which tokens are signed.
const TokenKey = "token-key"

// IsSecret reports whether the value of the setting is a secret. Nothing shows it, and a server
// gives it only to those who may administer the database: to others it is empty, and not nil.
func (s Setting) IsSecret() bool { return s.Kind == TokenKey }

// MaxSettingText is the longest By and Reason, in bytes.
const MaxSettingText = 1000

func (s *Setting) check() error {
	if !journal.ValidName(s.Kind) || s.Name != "" && !journal.ValidName(s.Name) ||
		len(s.By) > MaxSettingText || len(s.Reason) > MaxSettingText {
		return fmt.Errorf("the setting %q of kind %q is not valid", s.Name, s.Kind)
	}
	return nil
}
