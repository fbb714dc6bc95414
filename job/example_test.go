package job_test

import (
	"context"
	"fmt"
	"log"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/job"
	"github.com/perdure/perdure/store/memory"
)

// A queue with two workers does the jobs of all engines of a store.
func ExampleDefine() {
	welcome := job.Define("welcome", func(_ context.Context, to string) (string, error) {
		return "a mail to " + to, nil
	}, job.Spec{Queue: job.Queue{Name: "mails", Workers: 2}}, perdure.Retry{Attempts: 5})

	engine, err := perdure.New(memory.New(), perdure.Options{})
	if err == nil {
		err = engine.Register(welcome)
	}
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()

	runs, errs := welcome.StartAll(ctx, engine, []string{"ada", "bob", "eve"}, nil)
	for i, run := range runs {
		if errs[i] != nil {
			log.Fatal(errs[i])
		}
		out, err := run.Result(ctx)
		fmt.Println(out, err)
	}
	stop()
	<-done
	// Output:
	// a mail to ada <nil>
	// a mail to bob <nil>
	// a mail to eve <nil>
}
