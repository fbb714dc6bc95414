package memory_test

import (
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Database {
		s := memory.New()
		return storetest.Database{Open: func() (store.Store, error) {
			s = s.Reopen()
			return s, nil
		}, Lose: func(run journal.Number, seq int64) error { return s.Lose(run, seq) },
			Written: func(f func()) (int64, error) { return s.Written(f) }}
	})
}

func TestConformanceWithLeases(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Database {
		s := memory.NewShared(time.Hour)
		return storetest.Database{
			Open:    func() (store.Store, error) { return s.Beside(), nil },
			Lapse:   s.Lapse,
			Lose:    s.Lose,
			Written: s.Written,
		}
	})
}
