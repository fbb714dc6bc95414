//go:build !unix

package testserver

import (
	"errors"
	"os"
	"syscall"
)

// Processes are not paused on this system.
const pauses, resumes = syscall.Signal(-1), syscall.Signal(-2)

func ownGroup() *syscall.SysProcAttr { return nil }

// signalGroup kills the process, since this system has no groups.
func signalGroup(pid int, sig syscall.Signal) error {
	if sig == pauses || sig == resumes {
		return errors.ErrUnsupported
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return nil // it has ended
	}
	_ = p.Kill() // it may have ended
	return nil
}
