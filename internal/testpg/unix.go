//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package testpg

import (
	"os"
	"syscall"
)

// supported reports whether this system can start servers and end them reliably.
const supported = true

// attributes returns attributes that put a process into a process group of its own, and under
// an account.
func attributes(a *account) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if a != nil {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	return attr
}

// tryLock tries to take the lock of a file, and reports whether it has. Every process that
// inherits the file keeps the lock too.
func tryLock(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
