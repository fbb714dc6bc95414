//go:build unix

package bench

import (
	"syscall"
	"time"
)

// processTime returns the time that the process has used so far, in user and system mode,
// or zero if it is unknown.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
