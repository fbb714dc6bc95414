//go:build !linux

package sqlite

import (
	"io/fs"
	"os"
)

// A sight is the state of a file at a look at its name.
type sight struct{ info fs.FileInfo }

// see looks at the file with that name.
func see(name string) (sight, error) {
	info, err := os.Stat(name)
	return sight{info}, err
}

// same reports whether both are the same file.
func (s sight) same(t sight) bool { return os.SameFile(s.info, t.info) }

func (s sight) bytes() int64 { return s.info.Size() }
