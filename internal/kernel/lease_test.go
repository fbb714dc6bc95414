package kernel

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// The timer sees the end of a lease where nothing else asks, and who asks sees it where
// the timer is late.
//
// spec: B-5
func TestALeaseLapsesByTheEnginesOwnClock(t *testing.T) {
	for name, late := range map[string]bool{"by the timer": false, "by who asks": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const lease = 10 * time.Second
				k := newKernel(memory.NewShared(lease), Config{}, newShared())
				dead := func() bool {
					synctest.Wait()
					select {
					case <-k.dead:
						return true
					default:
						return false
					}
				}
				for range 2 { // it begins anew
					k.extend(time.Now(), &store.Claimed{Lease: lease})
					if late {
						k.lease.over.Stop()
					}
					time.Sleep(lease - lease/margin - 1)
					if dead() || !k.holds() || !k.lives() {
						t.Fatal("it is over before its time")
					}
				}
				time.Sleep(time.Nanosecond)
				if dead() == late {
					t.Fatalf("the timer is late: %v, and the engine is dead: %v", late, dead())
				}
				if k.holds() || k.lives() || !dead() {
					t.Error("it holds after its time")
				}
				k.lease.over.Stop()
			})
		})
	}
}

// A renewal that makes the lease long, and whose answer comes after that of a claim which
// has shortened it since, leaves it short: others take over when the short one has passed.
//
// spec: P-1
func TestLateAnswerMakesNoLeaseLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &Kernel{dead: make(chan struct{})}
		k.lease.born = time.Now()
		k.extend(time.Now(), &store.Claimed{Lease: time.Second})
		defer k.lease.over.Stop()
		sent := time.Now()
		k.shortened(sent, &store.Claimed{Lease: time.Second})
		k.extend(sent, &store.Claimed{Lease: store.IdleLeases * time.Second})
		if until := time.Duration(k.lease.until.Load()); until > time.Second || k.lease.idle.Load() {
			t.Errorf("the engine goes on for %v, idle: %v", until, k.lease.idle.Load())
		}
		time.Sleep(100 * time.Millisecond)
		k.extend(time.Now(), &store.Claimed{Lease: store.IdleLeases * time.Second})
		if until := time.Duration(k.lease.until.Load()); until < 5*time.Second || !k.lease.idle.Load() {
			t.Errorf("a renewal after it: the engine goes on for %v, idle: %v", until, k.lease.idle.Load())
		}
	})
}
