//go:build unix

package floor

import (
	"syscall"
	"time"
)

// processTime returns the time that the process has used so far, in user and system mode. It
// returns zero if the system does not know it.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
