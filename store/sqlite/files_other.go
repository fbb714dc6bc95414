//go:build !linux

package sqlite

import (
	"io/fs"
	"os"
)

// A sight is a file as a look at its name shows it.
type sight struct{ info fs.FileInfo }

// see looks at the file that has the name.
func see(name string) (sight, error) {
	info, err := os.Stat(name)
	return sight{info}, err
}

// same reports whether both are the same file.
func (s sight) same(t sight) bool { return os.SameFile(s.info, t.info) }

func (s sight) bytes() int64 { return s.info.Size() }
