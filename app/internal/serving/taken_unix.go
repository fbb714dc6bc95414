//go:build unix

package serving

import (
	"errors"
	"syscall"
)

// isTaken reports whether an address cannot be opened because another process has it.
func isTaken(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }
