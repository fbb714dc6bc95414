//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package testpg

import (
	"os"
	"syscall"
)

// supported says whether servers can be started, and ended for sure, here.
const supported = true

// attributes puts a process into a group of its own, and under an account.
func attributes(a *account) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if a != nil {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	return attr
}

// tryLock takes the lock of a file, which all who inherit the file keep with us.
func tryLock(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
