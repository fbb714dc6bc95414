//go:build unix

package bench

import (
	"syscall"
	"time"
)

// processTime is the time that the process has used so far, in user and system
// mode; zero where the system does not tell.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
