package sqlite

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// A sight is the state of a file at a look at its name.
type sight struct {
	device, inode uint64
	size          int64
}

// see looks at the file with that name. It does not ask for the file's times: since Linux 6.13 the
// next write to a file whose times were read sets new times, and so writes a new inode into the
// file system's own log. That made a commit 50 µs slower.
func see(name string) (sight, error) {
	var x unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, name, 0, unix.STATX_INO|unix.STATX_SIZE, &x) == nil {
		return sight{
			device: unix.Mkdev(x.Dev_major, x.Dev_minor), inode: x.Ino, size: int64(x.Size),
		}, nil
	}
	// for a kernel older than 4.11, or a sandbox that refuses calls it does not know
	var s unix.Stat_t
	if err := unix.Stat(name, &s); err != nil {
		return sight{}, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return sight{device: s.Dev, inode: s.Ino, size: s.Size}, nil
}

// same reports whether both are the same file.
func (s sight) same(t sight) bool { return s.device == t.device && s.inode == t.inode }

func (s sight) bytes() int64 { return s.size }
