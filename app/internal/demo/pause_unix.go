//go:build unix

package demo

import (
	"os"
	"syscall"
)

// canPause says whether this system can hold up a process.
const canPause = true

func hold(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }
func goOn(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
