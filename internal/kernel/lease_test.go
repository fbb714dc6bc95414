package kernel

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// The timer sees the end of a lease if nothing else asks, and a caller that asks sees it if the
// timer is late.
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
				for range 2 { // the lease begins anew
					k.lease.extend(time.Now(), &store.Claimed{Lease: lease}, func() { k.holds() })
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

// A renewal that makes the lease long, and whose answer comes after that of a claim which has
// shortened it since, leaves it short: others take over when the short lease has passed.
//
// spec: P-1
func TestLateAnswerMakesNoLeaseLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &Kernel{dead: make(chan struct{})}
		k.lease.born = time.Now()
		k.lease.extend(time.Now(), &store.Claimed{Lease: time.Second}, func() { k.holds() })
		defer k.lease.over.Stop()
		sent := time.Now()
		k.lease.shortened(sent, &store.Claimed{Lease: time.Second})
		k.lease.extend(
			sent, &store.Claimed{Lease: store.IdleLeases * time.Second}, func() { k.holds() },
		)
		if until := time.Duration(k.lease.until.Load()); until > time.Second ||
			k.lease.idle.Load() {
			t.Errorf("the engine goes on for %v, idle: %v", until, k.lease.idle.Load())
		}
		time.Sleep(100 * time.Millisecond)
		k.lease.extend(
			time.Now(), &store.Claimed{Lease: store.IdleLeases * time.Second}, func() { k.holds() },
		)
		if until := time.Duration(k.lease.until.Load()); until < 5*time.Second ||
			!k.lease.idle.Load() {
			t.Errorf(
				"a renewal after it: the engine goes on for %v, idle: %v", until,
				k.lease.idle.Load(),
			)
		}
	})
}

// A slowRenewals is a store that takes its time for renewals, and counts how many go on at once.
type slowRenewals struct {
	store.Store
	now, most, calls atomic.Int32
}

func (s *slowRenewals) Claim(context.Context, store.Claim) (store.Claimed, error) {
	s.calls.Add(1)
	s.most.Store(max(s.most.Load(), s.now.Add(1)))
	defer s.now.Add(-1)
	time.Sleep(100 * time.Millisecond)
	return store.Claimed{Lease: time.Second}, nil
}

// Renewals come one after the other. So no answer to a request for a long lease comes after the
// answer to a request that ends it. Time passes while one renewal waits for another.
//
// spec: P-1
func TestRenewalsComeOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowRenewals{Store: memory.NewShared(time.Second)}
		k := newKernel(s, Config{}, newShared())
		k.lease.extend(time.Now(), &store.Claimed{Lease: time.Second}, func() { k.holds() })
		k.lease.extend(
			time.Now(), &store.Claimed{Lease: store.IdleLeases * time.Second}, func() { k.holds() },
		)
		defer k.lease.over.Stop()
		var all sync.WaitGroup
		all.Go(func() { _, _, _ = k.renewOnTime(t.Context(), time.Second) })
		for range 3 {
			all.Go(func() { k.awake(t.Context()) })
		}
		all.Wait()
		if s.most.Load() != 1 || s.calls.Load() == 0 || k.lease.idle.Load() {
			t.Errorf(
				"%d renewals, %d at once; the lease is long: %v", s.calls.Load(), s.most.Load(),
				k.lease.idle.Load(),
			)
		}
	})
}

// A silent is a store that answers no renewal.
type silent struct{ store.Store }

func (silent) Claim(ctx context.Context, _ store.Claim) (store.Claimed, error) {
	<-ctx.Done()
	return store.Claimed{}, ctx.Err()
}

// An engine that stops or dies does not wait for starts that wait for a store without an
// answer. A start whose context has ended does not wait for other starts.
//
// spec: P-1
func TestTheEndOfAnEngineWaitsForNoStart(t *testing.T) {
	for name, end := range map[string]func(k *Kernel, stop func()){
		"it stops": func(_ *Kernel, stop func()) { stop() },
		"it dies":  func(k *Kernel, _ func()) { k.die(errLost) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKernel(silent{memory.NewShared(time.Second)}, Config{}, newShared())
				k.lease.extend(
					time.Now(), &store.Claimed{Lease: 30 * time.Second}, func() { k.holds() },
				)
				k.lease.extend(
					time.Now(), &store.Claimed{Lease: store.IdleLeases * 30 * time.Second},
					func() { k.holds() },
				)
				for range 12 {
					go k.awake(context.Background())
				}
				synctest.Wait()
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				k.lease.nudge <- struct{}{}
				over, begun := make(chan struct{}), make(chan struct{})
				go func() {
					k.keepLease(ctx)
					close(over)
				}()
				go func() { // a start
					k.awake(ctx)
					close(begun)
				}()
				synctest.Wait()
				began := time.Now()
				end(k, stop)
				<-over
				<-begun
				if took := time.Since(began); took > time.Second {
					t.Errorf("it stops after %v", took)
				}
				time.Sleep(time.Hour)
			})
		})
	}
}

// A takesOver is a store in which a renewal that makes the lease long takes over another engine.
type takesOver struct{ store.Store }

func (takesOver) Claim(_ context.Context, c store.Claim) (store.Claimed, error) {
	if c.(store.Renew).Idle {
		return store.Claimed{Lease: store.IdleLeases * time.Second, Expired: 1}, nil
	}
	return store.Claimed{Lease: time.Second}, nil
}

// An observer that hears of the take-over of an engine may start a run.
//
// spec: B-5
func TestAnObserverOfATakeOverMayStartARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k *Kernel
		started := make(chan struct{}, 1)
		see := func(observe.Notice) {
			k.awake(t.Context()) // as a start does
			started <- struct{}{}
		}
		all := observe.NewSet([]observe.Observer{{
			Kinds: []observe.Kind{observe.EngineExpired}, See: see,
		}})
		k = newKernel(takesOver{memory.NewShared(time.Second)}, Config{Observers: all}, newShared())
		k.lease.extend(time.Now(), &store.Claimed{Lease: time.Second}, func() { k.holds() })
		defer k.lease.over.Stop()
		go func() { _, _, _ = k.renewOnTime(t.Context(), time.Second) }()
		synctest.Wait()
		select {
		case <-started:
			if k.lease.idle.Load() {
				t.Error("the lease is long after the start")
			}
		default:
			t.Error("the start waits for the renewal that tells of it")
		}
	})
}
