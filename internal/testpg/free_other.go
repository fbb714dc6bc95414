//go:build !linux

package testpg

func freeBytes(string) uint64 { return 0 }
