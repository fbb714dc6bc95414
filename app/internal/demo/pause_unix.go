//go:build unix

package demo

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// canPause says whether this system can hold up a process.
const canPause = true

// hold returns when no thread of the process runs any more: until then one might hear
// what the process is not to hear.
func hold(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		var state syscall.WaitStatus
		switch _, err := syscall.Wait4(p.Pid, &state, syscall.WUNTRACED, nil); {
		case errors.Is(err, syscall.EINTR):
		case err == nil && !state.Stopped():
			return fmt.Errorf("process %d has ended: %v", p.Pid, state)
		default:
			return err
		}
	}
}

func goOn(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
