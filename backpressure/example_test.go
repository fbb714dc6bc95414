package backpressure_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/store/memory"
)

// errThrottled is the error of services that have too many requests.
var errThrottled = errors.New("too many requests")

// At most three things go on at a time.
func ExampleLimit() {
	limiter := backpressure.Limit(3).Begin()
	for running := range 4 {
		room, err := limiter.Room(running, time.Now())
		fmt.Println(running, "run, and so many more may begin:", room, err)
	}
	limiter.Ended(nil, time.Now())
	fmt.Println(backpressure.Limit(-1).Validate())
	// Output:
	// 0 run, and so many more may begin: 3 <nil>
	// 1 run, and so many more may begin: 2 <nil>
	// 2 run, and so many more may begin: 1 <nil>
	// 3 run, and so many more may begin: 0 <nil>
	// perdure: limit: -1 at a time: at least 1, or 0 for no limit
}

// While few things fail, more go on at a time. If too many fail, half as many go on.
func ExampleAdaptive() {
	limiter := backpressure.Adaptive{Start: 4, Every: 5}.Begin()
	tell := func(results ...error) {
		for _, err := range results {
			limiter.Ended(err, time.Now())
		}
		room, _ := limiter.Room(0, time.Now())
		fmt.Println("at a time:", room)
	}
	tell()
	tell(nil, nil, nil, nil, nil)
	tell(nil, errThrottled, nil, errThrottled, nil)
	// Output:
	// at a time: 4
	// at a time: 5
	// at a time: 2
}

func ExampleAdaptive_Validate() {
	fmt.Println(backpressure.Adaptive{}.Validate()) // zero fields take the default
	fmt.Println(backpressure.Adaptive{Min: 4, Max: 2}.Validate())
	fmt.Println(backpressure.Adaptive{Halve: 10}.Validate())
	// Output:
	// <nil>
	// perdure: adaptive: Max 2 is not valid: at least Min, which is 4
	// perdure: adaptive: Halve 10 is not valid: allowed are 0 to 1
}

// The members of a batch begin together. The next batch begins when all of them have ended.
func ExampleBatched() {
	limiter := backpressure.Batched{Size: 2}.Begin()
	ask := func(running int) {
		room, _ := limiter.Room(running, time.Now())
		fmt.Println(running, "run, and so many more may begin:", room)
	}
	ask(0)
	ask(2)
	limiter.Ended(nil, time.Now())
	ask(1)
	limiter.Ended(nil, time.Now())
	ask(0)
	fmt.Println(backpressure.Batched{Size: -2}.Validate())
	// Output:
	// 0 run, and so many more may begin: 2
	// 2 run, and so many more may begin: 0
	// 1 run, and so many more may begin: 0
	// 0 run, and so many more may begin: 2
	// perdure: batched: Size -2 is not valid: at least 1
}

// A service that fails again and again gets no calls for a while, and then a few at first.
func ExampleCircuitBreaker() {
	limiter := backpressure.CircuitBreaker{Failures: 2, Recovery: time.Minute, Successes: 1}.Begin()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	limiter.Ended(errThrottled, noon)
	limiter.Ended(errThrottled, noon.Add(time.Second))

	_, err := limiter.Room(0, noon.Add(20*time.Second))
	fmt.Println(err)
	room, err := limiter.Room(0, noon.Add(61*time.Second))
	fmt.Println(room, err)
	fmt.Println(backpressure.CircuitBreaker{Recovery: -time.Second}.Validate())
	// Output:
	// perdure: the circuit breaker is open since 2026-11-21T12:00:01Z, until 2026-11-21T12:01:01Z
	// 1 <nil>
	// perdure: circuit breaker: Recovery -1s is not valid: at least 0
}

// The error has the time from which another try makes sense.
func ExampleOpenError() {
	limiter := backpressure.CircuitBreaker{Failures: 1}.Begin()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	limiter.Ended(errThrottled, noon)
	_, err := limiter.Room(0, noon.Add(10*time.Second))

	var open *backpressure.OpenError
	fmt.Println(errors.As(err, &open), open.Since.Format(time.TimeOnly),
		open.Until.Format(time.TimeOnly))
	// Output: true 12:00:00 12:00:30
}

// A policy of the application, or a policy with other numbers, has a name by which it is found.
func ExampleRegister() {
	defer backpressure.Reset()
	if err := backpressure.Register("gentle", backpressure.Adaptive{Start: 1, Max: 3}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(backpressure.Names())
	fmt.Println(backpressure.Register("gentle", backpressure.Limit(2)))
	// Output:
	// [adaptive batched circuit-breaker circuit-breaker-aggressive circuit-breaker-conservative gentle]
	// perdure: register policy gentle: the name is registered already
}

func ExampleLookup() {
	p, err := backpressure.Lookup("circuit-breaker-aggressive")
	fmt.Printf("%+v %v\n", p, err)
	_, err = backpressure.Lookup("bached")
	fmt.Println(err)
	// Output:
	// {Failures:2 Recovery:1m0s Successes:1} <nil>
	// perdure: policy "bached": no policy has this name (there are adaptive, batched, circuit-breaker, circuit-breaker-aggressive, circuit-breaker-conservative)
}

// Operators choose a policy in a file.
func ExampleConfig() {
	for _, file := range []string{
		`{"strategy": "batched", "batch_size": 25}`,
		`{"strategy": "circuit-breaker", "recovery_timeout": "10s"}`,
		`{"strategy": "batched", "max_concurrency": 25}`,
	} {
		var c backpressure.Config
		if err := json.Unmarshal([]byte(file), &c); err != nil {
			log.Fatal(err)
		}
		p, err := c.Policy()
		fmt.Printf("%+v %v\n", p, err)
	}
	// Output:
	// {Size:25} <nil>
	// {Failures:5 Recovery:10s Successes:3} <nil>
	// <nil> perdure: policy configuration: the strategy batched has no max_concurrency
}

// Each photo is a step: two at a time, identified by their names, and one may fail.
func ExampleForEach() {
	album := perdure.Define("album", func(ctx context.Context, photos []string) ([]string, error) {
		small, err := backpressure.ForEach(ctx, "shrink", photos, backpressure.Each[string]{
			Policy: backpressure.Limit(2), Key: func(photo string) string { return photo },
			Failures: 1,
		}, func(_ context.Context, photo string) (string, error) {
			if photo == "cat.png" {
				return "", errors.New("not a photo")
			}
			return "small " + photo, nil
		}, perdure.Retry{Attempts: 2, NoDelay: true})
		for _, i := range small.Failed() {
			fmt.Println(photos[i], "failed:", small[i].Err)
		}
		return small.Values(), err
	})

	engine, err := perdure.New(memory.New(), perdure.Options{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = engine.Register(album)
	}
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go engine.Run(ctx)
	run, err := album.Start(ctx, engine, []string{"sea.jpg", "cat.png", "sun.jpg"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	// Output:
	// cat.png failed: not a photo
	// [small sea.jpg  small sun.jpg] <nil>
}

// The results of a list are in the order of its items, each with its value or its error.
func ExampleResult() {
	results := backpressure.Results[int]{{Value: 3}, {Err: errThrottled}}
	results = append(results, backpressure.Result[int]{Value: 5})
	fmt.Println(results.Values())
	for _, i := range results.Failed() {
		fmt.Println("item", i, "failed:", results[i].Err)
	}
	// Output:
	// [3 0 5]
	// item 1 failed: too many requests
}

// A workflow leaves the choice to the engine, whose operator knows the service behind it.
func ExampleDefault() {
	mail := perdure.Define("mail", func(ctx context.Context, to []string) (int, error) {
		sent, err := backpressure.ForEach(ctx, "send", to,
			backpressure.Each[string]{Policy: backpressure.Default},
			func(context.Context, string) (bool, error) { return true, nil })
		return len(sent), err
	})
	engine, err := perdure.New(memory.New(), perdure.Options{
		Backpressure: backpressure.Config{Strategy: "batched", BatchSize: 2},
	})
	if err == nil {
		err = engine.Register(mail)
	}
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx) }()
	run, err := mail.Start(ctx, engine, []string{"ada", "bob", "eve"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	stop()
	fmt.Println(<-done)
	// Output:
	// 3 <nil>
	// <nil>
}

// Any other policy begins as it does by itself.
func ExampleBegin() {
	limiter, err := backpressure.Begin(context.Background(), backpressure.Limit(2))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(limiter.Room(1, time.Now()))
	// Output:
	// 1 <nil>
}
