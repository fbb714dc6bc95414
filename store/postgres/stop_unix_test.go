//go:build unix

package postgres_test

import (
	"os"
	"syscall"
)

// stop stops a process where it is, and goOn has it go on.
func stop(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }
func goOn(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
