package update_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/update"
)

// Wherever a crash comes, each bid is replied to once, and a sender that sends it again gets the
// same reply.
//
// spec: B-21
func TestAReplyIsTheSameWhereverACrashComes(t *testing.T) {
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		var got []string
		for i, cents := range []int{5, 99, 7, -1, 3} {
			var p place
			err := env.Do(func(e *perdure.Engine) (err error) {
				p, _, err = update.SendWithStart(env.Context(), e, unchecked, bid{cents}, auction,
					4, perdure.ID("a"), perdure.SendKey(fmt.Sprint("k", i)))
				return err
			})
			got = append(got, fmt.Sprint(p, errors.Is(err, errLow), errors.Is(err, errNoSale)))
		}
		perduretest.Get(env, auction, "a").Returns(7)
		for i := range 5 {
			var p place
			err := env.Do(func(e *perdure.Engine) (err error) {
				key := perdure.SendKey(fmt.Sprint("k", i))
				p, err = unchecked.Send(env.Context(), e, "a", bid{1}, key)
				return err
			})
			again := fmt.Sprint(p, errors.Is(err, errLow), errors.Is(err, errNoSale))
			if again != got[i] {
				env.Errorf("bid %d: %s, then %s", i, got[i], again)
			}
		}
		if want := []string{
			"{true 1} false false", "{false 0} false true", "{true 3} false false",
			"{false 0} true false", "{false 4} false false",
		}; !slices.Equal(got, want) {
			env.Errorf("%q, want %q", got, want)
		}
		return got
	}, auction)
}

// A sender on another engine, and one without an engine, learn the reply from the store.
//
// spec: B-21
func TestASenderInAnotherProcessGetsTheReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := world.NewCluster(t, 1, auction)
		w := c.Nodes[0]
		world.StartAndSettle(w, auction, 3, perdure.ID("a"))
		other := c.Node()
		other.Begin()
		synctest.Wait()
		got, err := raise.Send(within(t), other.Engine, "a", bid{5})
		world.NoError(t, err)
		same(t, "reply", got, place{true, 1})
		client, err := perdure.NewClient(t.Context(), c.DB.Beside())
		world.NoError(t, err)
		got, err = raise.Send(within(t), client, "a", bid{6})
		world.NoError(t, err)
		same(t, "reply", got, place{true, 2})
		_, err = raise.Send(within(t), client, "a", bid{0})
		if !errors.Is(err, errLow) {
			t.Error(err)
		}
		c.Stop(w)
		short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err = raise.Send(short, client, "a", bid{7}, perdure.SendKey("k"))
		world.CodeIs(t, err, journal.CodeTimedOut)
		c.Node(auction).Begin()
		got, err = raise.Send(within(t), client, "a", bid{8}, perdure.SendKey("k"))
		world.NoError(t, err)
		same(t, "reply", got, place{true, 3})
		c.End()
	})
}

// spec: B-21
func TestAnUpdateWorksOnAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.db")
	s, err := sqlite.Open(path)
	world.NoError(t, err)
	e, err := perdure.New(s, perdure.Options{})
	world.NoError(t, err)
	world.NoError(t, e.Register(auction))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	defer func() {
		stop()
		world.NoError(t, <-done)
		world.NoError(t, s.Close())
	}()
	beside, err := sqlite.Open(path)
	world.NoError(t, err)
	defer func() { world.NoError(t, beside.Close()) }()
	client, err := perdure.NewClient(t.Context(), beside, auction)
	world.NoError(t, err)
	got, d, err := update.SendWithStart(within(t), client, raise, bid{5}, auction, 2,
		perdure.ID("a"), perdure.SendKey("k"))
	world.NoError(t, err)
	same(t, "reply", fmt.Sprint(got, d.New), "{true 1} true")
	got, err = raise.Send(within(t), client, "a", bid{5}, perdure.SendKey("k"))
	world.NoError(t, err)
	same(t, "reply", got, place{true, 1})
	got, err = raise.Send(within(t), e, "a", bid{4})
	world.NoError(t, err)
	same(t, "reply", got, place{false, 2})
}

// Senders, crashes and runs that continue as new come in any order: each key is counted once, and
// has one reply.
//
// spec: B-21
func TestRandomSendersGetOneReplyForEachKey(t *testing.T) {
	counter := perdure.Define("counter", func(ctx context.Context, sum int) (int, error) {
		for range 3 {
			ask, err := raise.Wait(ctx)
			if err != nil {
				return 0, err
			}
			if sum += ask.Value.Cents; ask.Value.Cents%5 == 0 {
				if err := perdure.Sleep(ctx, time.Second); err != nil {
					return 0, err
				}
			}
			if err := ask.Reply(ctx, place{Count: sum}); err != nil {
				return 0, err
			}
		}
		return 0, perdure.ContinueAsNew(ctx, sum)
	})
	for range 10 {
		synctest.Test(t, func(t *testing.T) {
			random := world.Seeded(t)
			w := world.With(t, perdure.Options{IdleTimeout: -1}, counter)
			world.StartAndSettle(w, counter, 0, perdure.ID("a"))
			var mu sync.Mutex
			replies := map[int]int{}
			var senders sync.WaitGroup
			sender := func(random *rand.Rand) {
				for range 20 {
					key := 1 + random.IntN(12)
					time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
					var p place
					for {
						var err error
						p, err = raise.Send(within(t), w.Current(), "a", bid{key},
							perdure.SendKey(fmt.Sprint(key)))
						if err == nil {
							break
						}
						if c := journal.CodeOf(err); c != journal.CodeStopped &&
							c != journal.CodeUnavailable {
							t.Error(err)
							return
						}
						time.Sleep(time.Second)
					}
					mu.Lock()
					if old, known := replies[key]; known && old != p.Count {
						t.Errorf("key %d has the replies %d and %d", key, old, p.Count)
					}
					replies[key] = p.Count
					mu.Unlock()
				}
			}
			for range 4 {
				r := rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
				senders.Go(func() { sender(r) })
			}
			for range 5 {
				time.Sleep(time.Duration(random.IntN(15)) * time.Second)
				w.Crash()
			}
			senders.Wait()
			sums := map[int]bool{}
			want, most := 0, 0
			for key, sum := range replies {
				want += key
				most = max(most, sum)
				if sums[sum] {
					t.Errorf("two keys have the reply %d", sum)
				}
				sums[sum] = true
			}
			same(t, "the last sum", most, want)
			w.End()
		})
	}
}
