package backpressure

import (
	"time"

	"github.com/perdure/perdure/internal/failure"
)

// Batched is a policy that does things in batches: the members of a batch go on at once, and no
// member of the next batch begins before all of them have ended. After the first member of a batch
// has ended, no other thing is added to the batch.
type Batched struct {
	Size int // of a batch; 0 means 10
}

// Begin implements [Policy]. If Validate returns an error, nothing begins and each thing gets that
// error.
func (b Batched) Begin() Limiter {
	if err := b.Validate(); err != nil {
		return misfit{err}
	}
	return &batchedLimiter{size: b.filled().Size}
}

// Validate returns an error of code invalid for a negative size.
func (b Batched) Validate() error {
	if size := b.filled().Size; size < 1 {
		return failure.Invalid("batched", "Size %d is not valid: at least 1", size)
	}
	return nil
}

func (b Batched) filled() Batched {
	if b.Size == 0 {
		b.Size = 10
	}
	return b
}

type batchedLimiter struct {
	size   int
	closed bool // a member of the batch has ended
}

func (f *batchedLimiter) Room(running int, _ time.Time) (int, error) {
	if running == 0 {
		f.closed = false
	}
	if f.closed {
		return 0, nil
	}
	return f.size - running, nil
}

func (f *batchedLimiter) Ended(error, time.Time) { f.closed = true }
