package floor

import (
	"errors"
	"os"
	"slices"
	"time"
)

const (
	diskTime  = 500 * time.Millisecond
	diskBlock = 4 << 10
)

// Disk measures a disk. For about half a second it appends blocks of 4 kB to a temporary file in
// the directory, and makes each block durable before the next. It returns how many blocks per
// second it wrote and the median time of a block. No commit on that disk can be faster.
func Disk(dir string) (perSecond float64, p50 time.Duration, err error) {
	f, err := os.CreateTemp(dir, "floor-*")
	if err != nil {
		return 0, 0, err
	}
	took, err := appendBlocks(f)
	err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	if err != nil {
		return 0, 0, err
	}
	total := time.Duration(0)
	for _, t := range took {
		total += t
	}
	slices.Sort(took)
	return float64(len(took)) / total.Seconds(), took[len(took)/2], nil
}

func appendBlocks(f *os.File) ([]time.Duration, error) {
	block := make([]byte, diskBlock)
	var took []time.Duration
	for began := time.Now(); len(took) == 0 || time.Since(began) < diskTime; {
		t := time.Now()
		if _, err := f.Write(block); err != nil {
			return nil, err
		}
		if err := syncData(f); err != nil {
			return nil, err
		}
		took = append(took, time.Since(t))
	}
	return took, nil
}
