package main

import (
	"context"
	"math/rand/v2"
	"syscall"
	"time"
	"unsafe"
)

// fullDisk prevents the files of a node from growing for a while.
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
	limit(p.Pid, &was, nil) // if that fails, the process has ended
	return true, nil
}

// limit sets and gets the maximum size of a process's files.
func limit(pid int, set, get *syscall.Rlimit) bool {
	_, _, e := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_FSIZE,
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(get)), 0, 0)
	return e == 0
}
