package floor

import (
	"os"
	"syscall"
)

// syncData makes the written data of a file durable, without the file times.
func syncData(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR {
			return err
		}
	}
}
