//go:build !unix

package demo

import (
	"errors"
	"os"
)

// canPause reports whether this system can pause a process.
const canPause = false

func hold(*os.Process) error { return errors.ErrUnsupported }
func goOn(*os.Process) error { return errors.ErrUnsupported }
