package stream_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/postgres"
	"github.com/perdure/perdure/store/sqlite"
)

// Wherever a crash comes, the stream has what the last attempt has put in, once and in order. An
// attempt that a crash interrupts has said something else before.
//
// spec: B-11
func TestAStreamHasWhatTheLastAttemptSaidWhereverACrashComes(t *testing.T) {
	var calls atomic.Int64
	talk := perdure.Define("talk", func(ctx context.Context, _ int) (string, error) {
		said := ""
		for i := range 3 {
			text, err := perdure.Step(ctx, "ask", func(ctx context.Context) (string, error) {
				n, _, err := perdure.Attempt(ctx)
				if err != nil {
					return "", err
				}
				call := calls.Add(1)
				text := fmt.Sprintf("%d.%d.a %d.%d.b %d.%d.c", i, call, i, call, i, call)
				if err := say(ctx, text); err != nil {
					return "", err
				}
				if i == 1 && n == 1 {
					return "", errDown
				}
				return text, nil
			}, hurried)
			if err != nil {
				return "", err
			}
			said += " " + text
		}
		return strings.TrimSpace(said), nil
	})
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		calls.Store(0)
		run := perduretest.Start(env, talk, 0)
		said, err := run.Result()
		if err != nil {
			env.Errorf("it failed: %v", err)
			return nil
		}
		var got string
		if err := env.Do(func(e *perdure.Engine) error {
			p, err := answer.Read(env.Context(), e, run.RunID(), 0, 0)
			got = words(p.Chunks)
			if err == nil && !p.Ended {
				env.Errorf("the stream has not ended")
			}
			return err
		}); err != nil {
			env.Errorf("it cannot be read: %v", err)
		}
		if got != said {
			env.Errorf("the stream has %q, and the steps returned %q", got, said)
		}
		return nil
	}, talk)
}

// What a dead attempt has put in counts until the next one begins, and is void then, also if that
// one puts nothing in.
//
// spec: B-11
func TestTheOutputOfAnAttemptThatDiedIsVoidWhenTheNextBegins(t *testing.T) {
	died := false
	quiet := perdure.Define("quiet", func(ctx context.Context, _ int) (int, error) {
		return perdure.Step(ctx, "ask", func(ctx context.Context) (int, error) {
			if !died {
				if err := say(ctx, "half of it"); err != nil {
					return 0, err
				}
				world.Pause(ctx, time.Hour)
			}
			return 0, nil
		})
	})
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, quiet)
		world.StartAndSettle(w, quiet, 0, perdure.ID("a"))
		p, err := answer.Read(t.Context(), w.Engine, "a", 0, 0)
		world.NoError(t, err)
		same(t, "before", words(p.Chunks), "half of it")
		w.Kill()
		client, err := perdure.NewClient(t.Context(), w.DB.Beside())
		world.NoError(t, err)
		same(t, "while nobody has the run", read(t, client, "a"), "half of it")
		died = true
		w.Begin()
		synctest.Wait()
		same(t, "after", read(t, w.Current(), "a"), ".")
		p, err = answer.Read(t.Context(), w.Current(), "a", p.Next, 0)
		world.NoError(t, err)
		same(t, "who goes on", words(p.Chunks), "(2 is void)")
		w.End()
	})
}

// An engine that was taken over puts nothing in any more, and its attempt hears of that.
//
// spec: B-11
func TestAFencedEnginePutsNothingIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late error
		done := make(chan struct{})
		calls := 0
		slow := perdure.Define("slow", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "ask", func(ctx context.Context) (int, error) {
				calls++
				if calls > 1 {
					return 0, say(ctx, "second")
				}
				if err := say(ctx, "first"); err != nil {
					return 0, err
				}
				world.Pause(context.WithoutCancel(ctx), time.Hour)
				late = answer.Append(ctx, "late")
				close(done)
				return 0, late
			})
		})
		c := world.NewCluster(t, 2, slow)
		w := c.Nodes[0]
		world.StartAndSettle(w, slow, 0, perdure.ID("a"))
		c.Kill(w)
		world.Pause(t.Context(), 2*time.Hour)
		<-done
		if late == nil {
			t.Error("a dead engine has put something in")
		}
		same(t, "what counts", read(t, c.Nodes[1].Engine, "a"), "second.")
		c.End()
	})
}

// A client on a file follows a stream that an engine beside it writes.
//
// spec: B-11
func TestAStreamIsReadFromAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.db")
	beside := world.Must[store.Store](t)(sqliteAt(path))
	defer func() { world.NoError(t, beside.Close()) }()
	writesWhileRead(t, world.Must[store.Store](t)(sqliteAt(path)), beside)
}

func sqliteAt(path string) (store.Store, error) { return sqlite.Open(path) }

// spec: B-11
func TestAStreamIsReadFromAnotherProcessOnPostgres(t *testing.T) {
	url := testpg.URL(t)
	at := func() (store.Store, error) { return postgres.Open(t.Context(), url) }
	beside := world.Must[store.Store](t)(at())
	defer func() { world.NoError(t, beside.Close()) }()
	writesWhileRead(t, world.Must[store.Store](t)(at()), beside)
}

// writesWhileRead runs an engine on a store, and follows a stream on another one. The body goes on
// when the reader has read the chunk.
func writesWhileRead(t *testing.T, s, beside store.Store) {
	t.Helper()
	goOn := make(chan struct{})
	turns := perdure.Define("turns", func(ctx context.Context, n int) (int, error) {
		return perdure.Step(ctx, "ask", func(ctx context.Context) (int, error) {
			for i := range n {
				chunk := fmt.Sprint(i, strings.Repeat("x", 60_000*i))
				if err := answer.Append(ctx, chunk); err != nil {
					return 0, err
				}
				<-goOn
			}
			return n, nil
		})
	})
	e, err := perdure.New(s, perdure.Options{})
	world.NoError(t, err)
	world.NoError(t, e.Register(turns))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	defer func() {
		stop()
		world.NoError(t, <-done)
		world.NoError(t, s.Close())
	}()
	run, err := turns.Start(t.Context(), e, 4)
	world.NoError(t, err)
	client, err := perdure.NewClient(t.Context(), beside)
	world.NoError(t, err)
	var sizes []int
	for c, err := range answer.Follow(t.Context(), client, run.RunID(), 0) {
		world.NoError(t, err)
		sizes = append(sizes, len(c.Value))
		goOn <- struct{}{}
	}
	if want := []int{1, 60_001, 120_001, 180_001}; !slices.Equal(sizes, want) {
		t.Errorf("%v, want %v", sizes, want)
	}
}

// spec: B-11, B-24
func TestAStreamIsKeptAsLongAsItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.With(t, perdure.Options{
			Retention: perdure.Retention{Period: time.Hour}, CleanUp: -1,
		}, flaky)
		run := world.StartAndSettle(w, flaky, 0, perdure.ID("a"), perdure.Dedup(0))
		world.Pause(t.Context(), 30*time.Minute)
		same(t, "what is kept", read(t, w.Engine, run.RunID()), "a3 b3 end.")
		world.Pause(t.Context(), 2*time.Hour)
		w.Purged(1)
		_, err := answer.Read(t.Context(), w.Engine, run.RunID(), 0, 0)
		world.CodeIs(t, err, journal.CodeNotFound)
		w.End()
	})
}

// A run that continues as new ends, and so does its stream; the successor has one of its own.
//
// spec: B-11
func TestASuccessorHasStreamsOfItsOwn(t *testing.T) {
	chain := perdure.Define("chain", func(ctx context.Context, n int) (int, error) {
		if _, err := perdure.Step(ctx, "ask", func(ctx context.Context) (int, error) {
			return 0, say(ctx, fmt.Sprint("round ", n))
		}); err != nil || n == 2 {
			return n, err
		}
		return 0, perdure.ContinueAsNew(ctx, n+1)
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		run := world.StartAndSettle(w, chain, 1, perdure.ID("a"))
		same(t, "the first run", read(t, w.Engine, run.RunID()), "round 1.")
		p, err := answer.Read(t.Context(), w.Engine, "a", 0, 0)
		world.NoError(t, err)
		same(t, "the successor", words(p.Chunks), "round 2")
		if p.RunID == run.RunID() {
			t.Error("the workflow ID stands for the first run")
		}
	}, chain)
}

// A step that puts something out before it kills its engine is parked all the same.
//
// spec: B-11
func TestARunThatKillsItsEnginesIsParkedWhateverItPutsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		poison := perdure.Define("poison", func(ctx context.Context, _ int) (int, error) {
			return perdure.Step(ctx, "ask", func(ctx context.Context) (int, error) {
				if err := say(ctx, "I take all memory"); err != nil {
					return 0, err
				}
				world.Pause(ctx, time.Hour)
				return 0, nil
			})
		})
		w := world.New(t, poison)
		world.StartAndSettle(w, poison, 0, perdure.ID("a"))
		for range 25 {
			if w.Status("a") == journal.Suspended {
				break
			}
			w.Crash()
			synctest.Wait()
		}
		same(t, "status", w.Status("a"), journal.Suspended)
		w.End()
	})
}

// Panics of the code are counted in a row whatever its steps put out in between.
//
// spec: B-11
func TestCodeThatPanicsIsParkedWhateverItsStepsPutOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := make(chan bool)
		broken := perdure.Define("broken", func(ctx context.Context, _ int) (int, error) {
			perdure.Async(ctx, "ask", func(ctx context.Context) (int, error) {
				if err := say(ctx, "working"); err != nil {
					return 0, err
				}
				said <- true
				world.Pause(ctx, time.Hour)
				return 0, nil
			})
			if err := perdure.Sleep(ctx, time.Second); err != nil {
				return 0, err
			}
			<-said
			panic("broken")
		}, perdure.Replays{Attempts: 3})
		w := world.New(t, broken)
		world.StartAndSettle(w, broken, 0, perdure.ID("a"))
		world.Pause(t.Context(), time.Minute)
		same(t, "status", w.Status("a"), journal.Suspended)
		w.End()
	})
}
