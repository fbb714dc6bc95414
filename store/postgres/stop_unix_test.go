//go:build unix

package postgres_test

import (
	"os"
	"syscall"
)

// stop suspends a process, and goOn resumes it.
func stop(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }
func goOn(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
