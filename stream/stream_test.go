package stream_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/effect"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/stream"
)

var answer = stream.New[string]("answer")

var errDown = errors.New("the model is down")

// hurried tries again at once.
var hurried = perdure.Retry{Attempts: 9, First: time.Millisecond, Factor: 1}

// say puts the words of a text into the stream, and waits for every other one.
func say(ctx context.Context, text string) error {
	for i, word := range strings.Fields(text) {
		put := answer.Push
		if i%2 == 0 {
			put = answer.Append
		}
		if err := put(ctx, word); err != nil {
			return err
		}
	}
	return nil
}

// speech puts a text into the stream in a step, and then something else in another one.
var speech = perdure.Define("speech", func(ctx context.Context, text string) (string, error) {
	if _, err := perdure.Step(ctx, "ask", func(ctx context.Context) (string, error) {
		return "", say(ctx, text)
	}); err != nil {
		return "", err
	}
	if err := perdure.Sleep(ctx, time.Hour); err != nil {
		return "", err
	}
	return perdure.Step(ctx, "close", func(ctx context.Context) (string, error) {
		return "done", say(ctx, "bye")
	})
})

// words returns the values of the chunks that count.
func words[T any](chunks []stream.Chunk[T]) string {
	var out []string
	for _, c := range chunks {
		if c.Void {
			out = append(out, fmt.Sprintf("(%d is void)", c.Part))
		} else {
			out = append(out, fmt.Sprint(c.Value))
		}
	}
	return strings.Join(out, " ")
}

// read returns the words that count now, and whether the stream has ended.
func read(t testing.TB, c perdure.Caller, id string) string {
	t.Helper()
	p, err := answer.Read(context.Background(), c, id, 0, 0)
	world.NoError(t, err)
	if p.Ended {
		return words(p.Chunks) + "."
	}
	return words(p.Chunks)
}

func same[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// spec: B-11
func TestAStreamIsReadWhileItsRunGoesOnAndAfterItsEnd(t *testing.T) {
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		run := world.StartAndSettle(w, speech, "to be or not", perdure.ID("a"))
		same(t, "now", read(t, w.Engine, "a"), "to be or not")
		p, err := answer.Read(t.Context(), w.Engine, run.RunID(), 0, 3)
		world.NoError(t, err)
		same(t, "first page", words(p.Chunks), "to be or")
		same(t, "next", p.Next, p.Chunks[2].Offset)
		c := p.Chunks
		if c[1].Part != c[0].Offset || c[0].Part != c[0].Offset || c[0].Attempt != 1 {
			t.Errorf("%+v", c)
		}
		p, err = answer.Read(t.Context(), w.Engine, run.RunID(), p.Next, 3)
		world.NoError(t, err)
		same(t, "second page", fmt.Sprint(words(p.Chunks), p.Ended), "notfalse")
		world.Pause(t.Context(), 2*time.Hour)
		same(t, "at the end", read(t, w.Engine, "a"), "to be or not bye.")
		p, err = answer.Read(t.Context(), w.Engine, run.RunID(), p.Next, 1)
		world.NoError(t, err)
		same(t, "last page", fmt.Sprint(words(p.Chunks), p.Ended), "byefalse")
		p, err = answer.Read(t.Context(), w.Engine, run.RunID(), p.Next, 1)
		world.NoError(t, err)
		same(t, "after it", fmt.Sprint(words(p.Chunks), p.Ended), "true")
		raw, err := stream.New[json.RawMessage]("answer").Read(t.Context(), w.Engine, "a", 0, 1)
		world.NoError(t, err)
		same(t, "raw", string(raw.Chunks[0].Value), `"to"`)
		sizes := w.Describe("a").State.Streams["answer"]
		same(t, "bytes", sizes.Bytes(), int64(len(`"to""be""or""not""bye"`)))
		other, err := stream.New[string]("other").Read(t.Context(), w.Engine, "a", 0, 0)
		world.NoError(t, err)
		same(t, "another stream", fmt.Sprint(other.Chunks, other.Ended), "[] true")

	}, speech)
}

// spec: B-11
func TestAFollowerHearsOfChunksAtOnceAndOfTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := perdure.Define("slow", func(ctx context.Context, n int) (int, error) {
			return perdure.Step(ctx, "count", func(ctx context.Context) (int, error) {
				for i := range n {
					world.Pause(ctx, time.Minute)
					if err := answer.Append(ctx, fmt.Sprint(i)); err != nil {
						return 0, err
					}
				}
				return n, nil
			})
		})
		w := world.New(t, slow)
		began := time.Now()
		world.StartAndSettle(w, slow, 3, perdure.ID("a"))
		var got []string
		for c, err := range answer.Follow(t.Context(), w.Engine, "a", 0) {
			world.NoError(t, err)
			got = append(got, c.Value+" "+time.Since(began).String())
		}
		want := []string{"0 1m0s", "1 2m0s", "2 3m0s"}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		ctx, cancel := context.WithCancel(t.Context())
		world.StartAndSettle(w, slow, 3, perdure.ID("b"))
		for c, err := range answer.Follow(ctx, w.Engine, "b", 0) {
			switch c.Value {
			case "1":
				cancel()
			case "":
				world.CodeIs(t, err, journal.CodeTimedOut)
			}
		}
		cancel()
		for range answer.Follow(t.Context(), w.Engine, "a", 0) {
			break
		}
		w.End()
	})
}

// flaky puts something in with each attempt, and fails in the first two.
var flaky = perdure.Define("flaky", func(ctx context.Context, _ int) (int, error) {
	return perdure.Step(ctx, "ask", func(ctx context.Context) (int, error) {
		n, _, err := perdure.Attempt(ctx)
		if err = errors.Join(err, say(ctx, fmt.Sprintf("a%d b%d", n, n))); err != nil {
			return 0, err
		}
		world.Pause(ctx, time.Minute)
		if n < 3 {
			return 0, errDown
		}
		return n, say(ctx, "end")
	}, perdure.Retry{Attempts: 3, First: time.Minute, Factor: 1})
})

// spec: B-11
func TestTheOutputOfARetriedAttemptIsVoid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, flaky)
		run := world.StartAndSettle(w, flaky, 0, perdure.ID("a"))
		first, err := answer.Read(t.Context(), w.Engine, run.RunID(), 0, 1)
		world.NoError(t, err)
		same(t, "the first attempt", words(first.Chunks), "a1")
		world.Pause(t.Context(), 90*time.Second)
		same(t, "between two attempts", read(t, w.Engine, "a"), "a1 b1")
		world.Pause(t.Context(), time.Minute)
		same(t, "the second attempt", read(t, w.Engine, "a"), "a2 b2")
		world.Pause(t.Context(), time.Hour)
		same(t, "the last attempt", read(t, w.Engine, "a"), "a3 b3 end.")
		p, err := answer.Read(t.Context(), w.Engine, run.RunID(), first.Next, 0)
		world.NoError(t, err)
		want := fmt.Sprintf("(%d is void) a3 b3 end", first.Chunks[0].Part)
		same(t, "who goes on", words(p.Chunks), want)
		s := w.Describe("a").State.Streams["answer"]
		same(t, "bytes", s.Bytes(), int64(len(`"a3""b3""end"`)))
		same(t, "written", s.Written, int64(len(`"a3""b3""end"`)+4*len(`"a1"`)))
		w.End()
	})
}

// A follower of a stream sees what becomes void, and knows which chunks it is.
//
// spec: B-11
func TestAFollowerLearnsWhatIsVoid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, flaky)
		world.StartAndSettle(w, flaky, 0, perdure.ID("a"))
		var all []stream.Chunk[string]
		for c, err := range answer.Follow(t.Context(), w.Engine, "a", 0) {
			world.NoError(t, err)
			if !c.Void {
				all = append(all, c)
				continue
			}
			was := len(all)
			all = slices.DeleteFunc(all, func(x stream.Chunk[string]) bool {
				return x.Part == c.Part
			})
			if was == len(all) {
				t.Errorf("nothing was read of part %d", c.Part)
			}
		}
		same(t, "what counts", words(all), "a3 b3 end")
		w.End()
	})
}

// spec: B-11
func TestTwoBranchesWriteOneStream(t *testing.T) {
	both := perdure.Define("both", func(ctx context.Context, _ int) (int, error) {
		var branches []*perdure.Future[int]
		for _, name := range []string{"left", "right"} {
			branches = append(branches, perdure.Go(ctx, name,
				func(ctx context.Context) (int, error) {
					return perdure.Step(ctx, "ask", func(ctx context.Context) (int, error) {
						n, _, _ := perdure.Attempt(ctx)
						for i := range 3 {
							world.Pause(ctx, time.Second)
							if err := say(ctx, fmt.Sprint(name, n, i)); err != nil {
								return 0, err
							}
						}
						if n == 1 && name == "left" {
							return 0, errDown
						}
						return n, nil
					}, hurried)
				}))
		}
		f := perdure.Async(ctx, "beside", func(ctx context.Context) (int, error) {
			return 0, say(ctx, "beside")
		})
		for _, b := range append(branches, f) {
			if _, err := b.Await(ctx); err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		world.StartAndSettle(w, both, 0, perdure.ID("a"))
		world.Pause(t.Context(), time.Minute)
		p, err := answer.Read(t.Context(), w.Engine, "a", 0, 0)
		world.NoError(t, err)
		parts := map[int64][]string{}
		for _, c := range p.Chunks {
			parts[c.Part] = append(parts[c.Part], c.Value)
		}
		var got []string
		for _, p := range parts {
			got = append(got, strings.Join(p, " "))
		}
		slices.Sort(got)
		want := []string{"beside", "left2 0 left2 1 left2 2", "right1 0 right1 1 right1 2"}
		if !slices.Equal(got, want) || !p.Ended {
			t.Errorf("%q, want %q", got, want)
		}
	}, both)
}

// spec: B-11
func TestStreamsAreBounded(t *testing.T) {
	var errs []error
	bytes := stream.New[[]byte]("bytes")
	full := perdure.Define("full", func(ctx context.Context, _ int) (int, error) {
		return perdure.Step(ctx, "fill", func(ctx context.Context) (int, error) {
			for _, n := range []int{stream.MaxChunk + 1, 150_000, 49_999, 2, 1, 1} {
				errs = append(errs, bytes.Append(ctx, make([]byte, n)))
			}
			return 0, nil
		})
	})
	synctest.Test(t, func(t *testing.T) {
		w := world.With(t, perdure.Options{MaxStreams: 200_000}, full)
		world.StartAndSettle(w, full, 0, perdure.ID("a"))
		for i, bad := range []bool{true, false, false, true, false, true} {
			if !bad {
				world.NoError(t, errs[i])
				continue
			}
			world.CodeIs(t, errs[i], journal.CodeTooLarge)
		}
		p, err := bytes.Read(t.Context(), w.Engine, "a", 0, 0)
		world.NoError(t, err)
		var sizes []int
		for _, c := range p.Chunks {
			sizes = append(sizes, len(c.Value))
		}
		same(t, "sizes", fmt.Sprint(sizes), "[150000 49999 1]")
		same(t, "bytes", w.Describe("a").State.Streams["bytes"].Bytes(), 200_000)
		w.End()
	})
}

// The bound counts what is in the journal, also in an engine that has not seen it being written.
//
// spec: B-11
func TestTheBoundOutlivesTheEngine(t *testing.T) {
	var last error
	twice := perdure.Define("twice", func(ctx context.Context, _ int) (int, error) {
		for _, name := range []string{"one", "two"} {
			if _, err := perdure.Step(ctx, name, func(ctx context.Context) (int, error) {
				last = answer.Append(ctx, "123456")
				return 0, nil
			}); err != nil {
				return 0, err
			}
			if err := perdure.Sleep(ctx, time.Hour); err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
	synctest.Test(t, func(t *testing.T) {
		w := world.With(t, perdure.Options{MaxStreams: 15}, twice)
		world.StartAndSettle(w, twice, 0, perdure.ID("a"))
		world.NoError(t, last)
		w.Crash()
		world.Pause(t.Context(), 3*time.Hour)
		world.CodeIs(t, last, journal.CodeTooLarge)
		w.End()
	})
}

// spec: B-11
func TestMisuseOfStreamsIsRefused(t *testing.T) {
	var inCode, inTx, badName, late, reading error
	odd := perdure.Define("odd", func(ctx context.Context, _ int) (int, error) {
		inCode = answer.Append(ctx, "x")
		_, reading = answer.Read(ctx, nil, "a", 0, 0)
		var of context.Context
		n, err := perdure.Step(ctx, "name", func(ctx context.Context) (int, error) {
			of = ctx
			badName = stream.New[string]("a b").Append(ctx, "x")
			return 0, nil
		})
		late = answer.Append(of, "x")
		return n, err
	})
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, odd)
		world.StartAndSettle(w, odd, 0, perdure.ID("a"))
		world.CodeIs(t, inCode, journal.CodeMisuse)
		world.CodeIs(t, badName, journal.CodeInvalid)
		world.CodeIs(t, late, journal.CodeCancelled)
		world.CodeIs(t, reading, journal.CodeInvalid)
		_, err := answer.Read(t.Context(), w.Engine, "nobody", 0, 0)
		world.CodeIs(t, err, journal.CodeNotFound)
		_, err = stream.New[string]("a b").Read(t.Context(), w.Engine, "a", 0, 0)
		world.CodeIs(t, err, journal.CodeInvalid)
		for _, err = range stream.New[string]("").Follow(t.Context(), w.Engine, "a", 0) {
			world.CodeIs(t, err, journal.CodeInvalid)
		}
		w.End()
	})
	var w *world.Shop
	tx := perdure.Define("tx", func(ctx context.Context, _ int) (int, error) {
		return perdure.StepTx(ctx, "pay", sqlite.Transactions(w.DB),
			func(ctx context.Context, _ *sql.Tx) (int, error) {
				inTx = answer.Append(ctx, "x")
				return 0, nil
			})
	})
	w = world.NewShop(t, perdure.Options{}, tx)
	run, err := tx.Start(t.Context(), w.Engine, 0)
	world.NoError(t, err)
	_, err = run.Result(t.Context())
	world.NoError(t, err)
	world.CodeIs(t, inTx, journal.CodeMisuse)
}

// What is put in after the attempt is over, or was given up, is refused; what came before counts.
//
// spec: B-11
func TestAnAttemptThatIsOverPutsNothingIn(t *testing.T) {
	var mu sync.Mutex
	var after error
	late := perdure.Define("late", func(ctx context.Context, _ int) (int, error) {
		return perdure.Step(ctx, "ask", func(ctx context.Context) (int, error) {
			if err := say(ctx, "in time"); err != nil {
				return 0, err
			}
			time.Sleep(time.Hour)
			err := answer.Append(context.WithoutCancel(ctx), "late")
			mu.Lock()
			defer mu.Unlock()
			after = err // of each attempt
			return 0, nil
		}, perdure.Timeout(time.Minute))
	})
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, late)
		world.StartAndSettle(w, late, 0, perdure.ID("a"))
		world.Pause(t.Context(), 2*time.Hour)
		mu.Lock()
		world.CodeIs(t, after, journal.CodeCancelled)
		mu.Unlock()
		same(t, "what counts", read(t, w.Engine, "a"), "in time.")
		w.End()
	})
}

// spec: B-11
func TestAStepThatRunsAtMostOnceKeepsWhatItPutOut(t *testing.T) {
	once := perdure.Define("once", func(ctx context.Context, _ int) (int, error) {
		return perdure.Step(ctx, "pay", func(ctx context.Context) (int, error) {
			if err := say(ctx, "paying"); err != nil {
				return 0, err
			}
			world.Pause(ctx, time.Hour)
			return 0, say(ctx, "paid")
		}, effect.AtMostOnce)
	})
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, once)
		world.StartAndSettle(w, once, 0, perdure.ID("a"))
		w.Crash()
		synctest.Wait()
		same(t, "status", w.Status("a"), journal.Failed)
		same(t, "what counts", read(t, w.Engine, "a"), "paying.")
		w.End()
	})
}

// spec: B-11
func TestARetryHasTheStreamsOfTheStepsThatItKeeps(t *testing.T) {
	broken := true
	order := perdure.Define("order", func(ctx context.Context, _ int) (int, error) {
		for _, name := range []string{"one", "two", "three"} {
			if _, err := perdure.Step(ctx, name, func(ctx context.Context) (int, error) {
				if err := say(ctx, name+" of "+name); err != nil {
					return 0, err
				}
				if broken && name == "two" {
					return 0, perdure.Permanent(errDown)
				}
				return 0, nil
			}); err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, order)
		world.StartAndSettle(w, order, 0, perdure.ID("a"))
		first, err := w.Engine.Get(t.Context(), "a")
		world.NoError(t, err)
		same(t, "the run that failed", read(t, w.Engine, "a"), "one of one two of two.")
		broken = false
		_, err = w.Engine.Retry(t.Context(), "a")
		world.NoError(t, err)
		synctest.Wait()
		same(t, "the retry", read(t, w.Engine, "a"), "one of one two of two three of three.")
		same(t, "the old run", read(t, w.Engine, first.RunID()), "one of one two of two.")
		w.End()
	})
}
