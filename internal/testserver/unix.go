//go:build unix

package testserver

import (
	"errors"
	"syscall"
)

const pauses, resumes = syscall.SIGSTOP, syscall.SIGCONT

// ownGroup returns attributes that put a process into a process group of its own.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// signalGroup sends a signal to the processes of a group, if there are any.
func signalGroup(pid int, sig syscall.Signal) error {
	if err := syscall.Kill(-pid, sig); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}
