package main

import (
	"context"
	"math/rand/v2"
	"syscall"
	"time"
	"unsafe"
)

// fullDisk lets no file of a node grow for a while.
func fullDisk(ctx context.Context, s *supervisor, rng *rand.Rand) (bool, error) {
	n := s.anyNode(rng)
	p, _ := n.process()
	var was syscall.Rlimit
	if !limit(p.Pid, nil, &was) {
		return false, nil
	}
	none := syscall.Rlimit{Cur: uint64(rng.IntN(1 << 16)), Max: was.Max}
	if !limit(p.Pid, &none, nil) {
		return false, nil
	}
	nap(ctx, time.Duration(100+rng.IntN(800))*time.Millisecond)
	limit(p.Pid, &was, nil) // where it fails, the process has ended
	return true, nil
}

// limit sets and gets how large a file of a process may become.
func limit(pid int, set, get *syscall.Rlimit) bool {
	_, _, e := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_FSIZE,
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(get)), 0, 0)
	return e == 0
}
