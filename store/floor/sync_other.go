//go:build !linux

package floor

import "os"

// syncData makes the written data of a file durable.
func syncData(f *os.File) error { return f.Sync() }
