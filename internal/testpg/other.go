//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package testpg

import (
	"os"
	"syscall"
)

const supported = false

func attributes(*account) *syscall.SysProcAttr { return nil }

func tryLock(*os.File) bool { return false }
