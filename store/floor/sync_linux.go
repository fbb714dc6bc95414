package floor

import (
	"os"
	"syscall"
)

// syncData makes what was written to a file durable, without its times.
func syncData(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR {
			return err
		}
	}
}
