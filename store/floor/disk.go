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

// Disk appends blocks of 4 kB to a temporary file in a directory for about half
// a second and makes each durable before the next. It tells how many a second,
// and how long half of them took at most: the least that a commit can take
// there.
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
