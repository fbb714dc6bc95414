package testpg

import "syscall"

// freeBytes returns the number of bytes that can still be written to the file system of a
// directory, or 0 if that is unknown.
func freeBytes(dir string) uint64 {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil || s.Bsize <= 0 {
		return 0
	}
	return s.Bavail * uint64(s.Bsize)
}
