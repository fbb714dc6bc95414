//go:build !unix

package postgres_test

import (
	"errors"
	"os"
)

func stop(*os.Process) error { return errors.New("no process can be stopped here") }
func goOn(*os.Process) error { return nil }
