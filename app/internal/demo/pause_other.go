//go:build !unix

package demo

import (
	"errors"
	"os"
)

// canPause says whether this system can hold up a process.
const canPause = false

func hold(*os.Process) error { return errors.ErrUnsupported }
func goOn(*os.Process) error { return errors.ErrUnsupported }
