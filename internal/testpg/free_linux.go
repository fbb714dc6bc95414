package testpg

import "syscall"

// freeBytes returns what can still be written to the file system of a directory.
func freeBytes(dir string) uint64 {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil || s.Bsize <= 0 {
		return 0
	}
	return s.Bavail * uint64(s.Bsize)
}
