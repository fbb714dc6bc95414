package job_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/job"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/limit"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/store/memory"
)

// An office does jobs, and notes in which order they began and how many went on at a time.
type office struct {
	mu    sync.Mutex
	on    map[string]bool
	most  int
	order []string
	fails map[string]int // how often a job fails first
}

func (o *office) work(_ context.Context, in string) (string, error) {
	o.mu.Lock()
	if o.on == nil {
		o.on = map[string]bool{}
	}
	o.on[in] = true
	o.most = max(o.most, len(o.on))
	o.order = append(o.order, in)
	o.fails[in]--
	failed := o.fails[in] >= 0
	o.mu.Unlock()
	time.Sleep(time.Second)
	o.mu.Lock()
	delete(o.on, in)
	o.mu.Unlock()
	if failed {
		return "", errors.New("the printer is out of paper")
	}
	return "done " + in, nil
}

// urgency is the priority of a job: its digits behind the slash.
var urgency = limit.RankBy(func(in string) (n int) {
	_, digits, _ := strings.Cut(in, "/")
	_, _ = fmt.Sscan(digits, &n)
	return n
})

// spec: B-26
func TestAQueueLimitsItsKindsOfJobsTogetherAndTheMostUrgentIsFirst(t *testing.T) {
	o := &office{fails: map[string]int{}}
	queue := job.Queue{Name: "desk", Workers: 1}
	letters := job.Define("letter", o.work, job.Spec{Queue: queue, Rank: urgency})
	parcels := job.Define("parcel", o.work, job.Spec{Queue: queue, Rank: urgency})
	perduretest.Test(t, func(env *perduretest.Env) {
		first := perduretest.Start(env, letters, "first/0")
		env.Settle()
		var runs []*perduretest.Run[string]
		for _, in := range []string{"a/1", "b/3", "c/-2", "d/3", "e/2"} {
			workflow := letters
			if in < "c" {
				workflow = parcels
			}
			runs = append(runs, perduretest.Start(env, workflow, in))
		}
		// by name, as another process does it
		if err := env.Do(func(e *perdure.Engine) error {
			_, err := e.Start(env.Context(), "letter", []byte(`"f/7"`), perdure.ID("f"))
			return err
		}); err != nil {
			env.Fatal(err)
		}
		first.Returns("done first/0")
		for i, in := range []string{"a/1", "b/3", "c/-2", "d/3", "e/2"} {
			runs[i].Returns("done " + in)
		}
		want := []string{"first/0", "f/7", "b/3", "d/3", "e/2", "a/1", "c/-2"}
		if !slices.Equal(o.order, want) || o.most != 1 {
			env.Errorf("they began in the order %v, %d at a time: want %v", o.order, o.most, want)
		}
	}, letters, parcels)
}

// spec: B-26
func TestAJobIsTriedAgainAndFailsForGoodAfterItsAttempts(t *testing.T) {
	o := &office{fails: map[string]int{"once": 1, "always": 9}}
	jobs := job.Define("job", o.work, job.Spec{}, perdure.Retry{Attempts: 2})
	perduretest.Test(t, func(env *perduretest.Env) {
		once, always := perduretest.Start(env, jobs, "once"), perduretest.Start(env, jobs, "always")
		once.Returns("done once")
		once.Executed("work", 2)
		always.Is(journal.Failed)
		always.Executed("work", 2)
	}, jobs)
}

// spec: B-26
func TestAnAttemptOfAJobHasATimeout(t *testing.T) {
	jobs := job.Define("job", pattern.NoResult(func(ctx context.Context, _ int) error {
		<-ctx.Done()
		return ctx.Err()
	}), job.Spec{Timeout: time.Minute}, perdure.NoRetry)
	perduretest.Test(t, func(env *perduretest.Env) {
		began := time.Now()
		_, err := perduretest.Start(env, jobs, 0).Result()
		if took := time.Since(began); journal.CodeOf(err) != journal.CodeTimedOut ||
			took < time.Minute || took > 2*time.Minute {
			env.Errorf("%v after %v", err, took)
		}
	}, jobs)
}

// spec: B-26
func TestJobsInAQueueOverCrashes(t *testing.T) {
	echo := job.Define("echo", func(_ context.Context, in string) (string, error) {
		return in, nil
	}, job.Spec{Queue: job.Queue{Name: "desk", Workers: 1}})
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		jobs := []*perduretest.Run[string]{}
		for _, in := range []string{"a", "b", "c"} {
			jobs = append(jobs, perduretest.Start(env, echo, in))
		}
		out := []string{}
		for _, run := range jobs {
			got, err := run.Result()
			out = append(out, fmt.Sprint(got, err))
		}
		return out
	}, echo)
}

// spec: B-26
func TestASpecThatIsNotValidIsRefused(t *testing.T) {
	ranked := limit.RankBy(func(int) int { return 1 })
	for want, s := range map[string]job.Spec{
		"Workers -1 is not valid":          {Queue: job.Queue{Workers: -1}},
		"holds nothing back":               {Queue: job.Queue{Name: "desk"}},
		"a Rank needs a queue":             {Rank: ranked},
		"the name of a limit":              {Queue: job.Queue{Name: "a b", Workers: 1}},
		"a Rate needs Tokens":              {Queue: job.Queue{Rate: limit.Rate{Tokens: -1}}},
		"timeout":                          {Timeout: -time.Second},
		"a workflow has one limit.Control": {Queue: job.Queue{Workers: 1}},
	} {
		opts := []perdure.WorkflowOption{}
		if strings.Contains(want, "one limit.Control") {
			opts = append(opts, limit.Control{Concurrency: 1})
		}
		jobs := job.Define("job", func(context.Context, int) (int, error) { return 0, nil }, s,
			opts...)
		engine, err := perdure.New(memory.New(), perdure.Options{})
		if err != nil {
			t.Fatal(err)
		}
		err = engine.Register(jobs)
		if journal.CodeOf(err) != journal.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	engine, err := perdure.New(memory.New(), perdure.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Register(job.Define[int, int]("job", nil, job.Spec{})); journal.CodeOf(
		err) != journal.CodeInvalid {
		t.Errorf("without a function: %v", err)
	}
}

// spec: B-26
func TestAPriorityThatIsNotValidRefusesTheStart(t *testing.T) {
	for want, rank := range map[string]limit.Rank{
		"allowed are 32 bits": limit.RankBy(func(n int) int { return n << 40 }),
		"does not decode":     limit.RankBy(func(string) int { return 1 }),
		"panic":               limit.RankBy(func(int) int { panic("no rank") }),
	} {
		jobs := job.Define("job", func(_ context.Context, n int) (int, error) { return n, nil },
			job.Spec{Queue: job.Queue{Workers: 1}, Rank: rank})
		perduretest.Test(t, func(env *perduretest.Env) {
			err := env.Do(func(e *perdure.Engine) error {
				_, err := jobs.Start(env.Context(), e, 1)
				return err
			})
			if err == nil || !strings.Contains(err.Error(), want) {
				env.Errorf("%q: %v", want, err)
			}
		}, jobs)
	}
}
