package lock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/internal/lock"
)

func TestTimePassesWhileOneWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lock.New()
		l.Lock()
		if l.TryLock() {
			t.Error("two hold it")
		}
		over := make(chan struct{})
		close(over)
		if l.LockOr(over, nil) || l.LockOr(nil, over) {
			t.Error("it is had after the end of the wait")
		}
		began := time.Now()
		go func() {
			time.Sleep(time.Hour)
			l.Unlock()
		}()
		l.Lock()
		if took := time.Since(began); took != time.Hour {
			t.Errorf("it was there after %v", took)
		}
		l.Unlock()
		if !l.TryLock() {
			t.Error("nobody holds it, and it is not to be had")
		}
	})
}
