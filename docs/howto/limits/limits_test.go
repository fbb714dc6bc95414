package howto

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure/perduretest"
)

// A busy counts how many calls go on at a time, each for a while.
type busy struct{ on, most, calls atomic.Int32 }

func (b *busy) call() error {
	b.calls.Add(1)
	if n := b.on.Add(1); n > b.most.Load() {
		b.most.Store(n)
	}
	defer b.on.Add(-1)
	<-time.After(time.Second)
	return nil
}

func (b *busy) Make(context.Context, int) error { return b.call() }
func (b *busy) Print(context.Context) error     { return b.call() }

func TestRunsOfACustomerAreLimited(t *testing.T) {
	maker := &busy{}
	workflow := Exports(maker)
	perduretest.Test(t, func(env *perduretest.Env) {
		var runs []*perduretest.Run[int]
		for range 5 {
			runs = append(runs, perduretest.Start(env, workflow, Export{"ada", 12}))
		}
		for _, run := range runs {
			run.Returns(12)
		}
		if maker.most.Load() > 2 || maker.calls.Load() != 60 {
			t.Errorf("%d calls, %d at a time", maker.calls.Load(), maker.most.Load())
		}
	}, workflow)
}

func TestThePrinterPrintsForOneRunAtATime(t *testing.T) {
	printer := &busy{}
	workflow := Label(printer)
	perduretest.Test(t, func(env *perduretest.Env) {
		var runs []*perduretest.Run[string]
		for i := range 4 {
			runs = append(runs, perduretest.Start(env, workflow, fmt.Sprint("label ", i)))
		}
		for i, run := range runs {
			run.Returns(fmt.Sprint("label ", i))
		}
		if printer.most.Load() != 1 {
			t.Errorf("%d labels at a time", printer.most.Load())
		}
	}, workflow)
}
