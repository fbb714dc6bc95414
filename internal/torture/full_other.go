//go:build unix && !linux

package main

import (
	"context"
	"math/rand/v2"
)

// fullDisk needs Linux.
func fullDisk(context.Context, *supervisor, *rand.Rand) (bool, error) { return false, nil }
