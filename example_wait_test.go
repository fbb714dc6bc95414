package perdure_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/memory"
)

// Payment is the payload of the signal "paid".
type Payment struct{ Cents int }

var (
	Paid = perdure.NewSignal[Payment]("paid")
	Note = perdure.NewSignal[string]("note")
)

// A signal is a typed message that runs wait for and anybody may send. A signal that comes before
// the wait counts.
func ExampleSignal() {
	order := perdure.Define("order", func(ctx context.Context, id string) (string, error) {
		p, err := Paid.Wait(ctx)
		return fmt.Sprintf("%s: got %d cents", id, p.Cents), err
	})

	engine, err := perdure.New(memory.New(), perdure.Options{})
	if err == nil {
		err = engine.Register(order)
	}
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()
	defer func() { stop(); <-done }()

	run, err := order.Start(ctx, engine, "ord-1", perdure.ID("ord-1"))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := Paid.Send(ctx, engine, "ord-1", Payment{Cents: 4200}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	// Output: ord-1: got 4200 cents <nil>
}

func ExampleSignal_Name() {
	approve := perdure.NewSignal[bool]("approve")
	fmt.Println(approve.Name())
	// Output: approve
}

// A wait that has timed out returns an error of its own, over crashes too.
func ExampleWithin() {
	order := perdure.Define("order", func(ctx context.Context, id string) (string, error) {
		_, err := Paid.Wait(ctx, perdure.Within(time.Millisecond))
		if errors.Is(err, context.DeadlineExceeded) {
			return id + ": nobody paid", nil
		}
		return id + ": paid", err
	})
	printResult(order, "ord-1")
	// Output: ord-1: nobody paid
}

// Until is for a fixed time at which the wait ends.
func ExampleUntil() {
	order := perdure.Define("order", func(ctx context.Context, due time.Time) (string, error) {
		_, err := Paid.Wait(ctx, perdure.Until(due))
		if errors.Is(err, context.DeadlineExceeded) {
			return "overdue", nil
		}
		return "paid", err
	})
	printResult(order, time.Now().Add(time.Millisecond))
	// Output: overdue
}

// Where takes the first message that matches, and leaves the others.
func ExampleWhere() {
	order := perdure.Define("order", func(ctx context.Context, _ int) ([]Payment, error) {
		large, err := Paid.Wait(ctx, perdure.Where(func(p Payment) bool { return p.Cents >= 1000 }))
		if err != nil {
			return nil, err
		}
		next, err := Paid.Wait(ctx)
		return []Payment{large, next}, err
	})
	engine, stop := newEngine(order)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, order, 0)
	for _, cents := range []int{5, 4200} {
		if _, err := Paid.Send(ctx, engine, run.ID(), Payment{Cents: cents}); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(run.Result(ctx))
	// Output: [{4200} {5}] <nil>
}

// Waits in different branches wait at the same time.
func ExampleSignal_Wait() {
	signed := perdure.NewSignal[string]("signed")
	contract := perdure.Define("contract", func(ctx context.Context, parties []string) (int,
		error) {
		var all []*perdure.Future[string]
		for _, p := range parties {
			all = append(all, perdure.Go(ctx, "party", func(ctx context.Context) (string, error) {
				return signed.Wait(ctx, perdure.Where(func(by string) bool { return by == p }))
			}, perdure.Key(p)))
		}
		for _, f := range all {
			if _, err := f.Await(ctx); err != nil {
				return 0, err
			}
		}
		return len(all), nil
	})
	engine, stop := newEngine(contract)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, contract, []string{"ada", "bob"})
	for _, by := range []string{"bob", "ada"} {
		if _, err := signed.Send(ctx, engine, run.ID(), by); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(run.Result(ctx))
	// Output: 2 <nil>
}

// A message or a timer, whichever comes first, ends the wait.
func ExampleSignal_Future() {
	order := perdure.Define("order", func(ctx context.Context, id string) (string, error) {
		paid := Paid.Future(ctx)
		reminder := perdure.Timer(ctx, "reminder", time.Millisecond)
		if _, err := reminder.Await(ctx); err != nil {
			return "", err
		}
		if _, err := perdure.Step(ctx, "remind", func(context.Context) (bool, error) {
			fmt.Println("please pay", id)
			return true, nil
		}); err != nil {
			return "", err
		}
		p, err := paid.Await(ctx)
		return fmt.Sprintf("got %d cents", p.Cents), err
	})
	engine, stop := newEngine(order)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, order, "ord-1")
	if _, err := Paid.Send(ctx, engine, run.ID(), Payment{Cents: 4200}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	// Output:
	// please pay ord-1
	// got 4200 cents <nil>
}

// A message with a key is delivered once, however often it is sent.
func ExampleSignal_Send() {
	order := perdure.Define("order", func(ctx context.Context, _ int) (int, error) {
		p, err := Paid.Wait(ctx)
		if err == nil {
			_, err = Note.Wait(ctx)
		}
		return p.Cents, err
	})
	engine, stop := newEngine(order)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, order, 0)
	for range 2 {
		d, err := Paid.Send(ctx, engine, run.ID(), Payment{Cents: 4200},
			perdure.SendKey("transfer-81"))
		fmt.Println("duplicate:", d.Duplicate, err)
	}
	if _, err := Note.Send(ctx, engine, run.ID(), "that is all"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))

	d, err := Paid.Send(ctx, engine, run.ID(), Payment{Cents: 1})
	fmt.Println("too late:", d.NotDelivered, d.Status, err)
	// Output:
	// duplicate: false <nil>
	// duplicate: true <nil>
	// 4200 <nil>
	// too late: true COMPLETED <nil>
}

// Many signals of one call share commits. Signals to one run come in their order.
func ExampleSignal_SendAll() {
	order := perdure.Define("order", func(ctx context.Context, parts int) (sum int, err error) {
		for range parts {
			p, err := Paid.Wait(ctx)
			if err != nil {
				return sum, err
			}
			sum += p.Cents
		}
		return sum, nil
	})
	engine, stop := newEngine(order)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, order, 2, perdure.ID("ord-1"))
	payments := []Payment{{Cents: 4000}, {Cents: 200}, {Cents: 100}}
	orders := []string{"ord-1", "ord-1", "ord-2"}
	sent, errs := Paid.SendAll(ctx, engine, payments, func(i int) (string, []perdure.SendOption) {
		return orders[i], []perdure.SendOption{perdure.SendKey(fmt.Sprint("transfer-", i))}
	})
	for i, d := range sent {
		fmt.Println(orders[i], "message", d.Number, "unrouted:", d.Unrouted, errs[i])
	}
	fmt.Println(run.Result(ctx))
	// Output:
	// ord-1 message 1 unrouted: false <nil>
	// ord-1 message 2 unrouted: false <nil>
	// ord-2 message 1 unrouted: true <nil>
	// 4200 <nil>
}

// Each customer has one run, which the first message starts.
func ExampleSendWithStart() {
	basket := perdure.Define("basket", func(ctx context.Context, customer string) ([]string,
		error) {
		var things []string
		for len(things) < 2 {
			thing, err := Note.Wait(ctx)
			if err != nil {
				return nil, err
			}
			things = append(things, thing)
		}
		return things, nil
	})
	engine, stop := newEngine(basket)
	defer stop()
	ctx := context.Background()
	for _, thing := range []string{"tea", "cups"} {
		d, err := perdure.SendWithStart(ctx, engine, Note, thing, basket, "ada",
			perdure.ID("basket-ada"))
		fmt.Println("started a run:", d.New, err)
	}
	run, err := basket.Get(ctx, engine, "basket-ada")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	// Output:
	// started a run: true <nil>
	// started a run: false <nil>
	// [tea cups] <nil>
}

// Workflow code may read the messages that have come and take the ones that it chooses.
func ExampleInbox() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		if _, err := Paid.Wait(ctx); err != nil {
			return "", err
		}
		notes, err := perdure.Inbox(ctx, "note")
		if err != nil {
			return "", err
		}
		last := notes[len(notes)-1]
		if _, err := perdure.Take(ctx, last.Number); err != nil {
			return "", err
		}
		left, err := perdure.Inbox(ctx, "note")
		return fmt.Sprintf("took %s, left %d", last.Data, len(left)), err
	})
	engine, stop := newEngine(w)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, w, 0)
	for _, text := range []string{"one", "two", "three"} {
		if _, err := Note.Send(ctx, engine, run.ID(), text); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := Paid.Send(ctx, engine, run.ID(), Payment{}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	// Output: took "three", left 2 <nil>
}

// Messages may be read without taking them.
func ExampleSignal_All() {
	w := perdure.Define("w", func(ctx context.Context, _ int) ([]string, error) {
		if _, err := Paid.Wait(ctx); err != nil {
			return nil, err
		}
		some, err := Note.Has(ctx)
		if err != nil || !some {
			return nil, err
		}
		last, _, err := Note.Latest(ctx)
		if err != nil {
			return nil, err
		}
		all, err := Note.All(ctx)
		return append(all, "the last is "+last), err
	})
	engine, stop := newEngine(w)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, w, 0)
	for _, text := range []string{"one", "two"} {
		if _, err := Note.Send(ctx, engine, run.ID(), text); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := Paid.Send(ctx, engine, run.ID(), Payment{}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	// Output: [one two the last is two] <nil>
}

// A run that sleeps is only in the store: thirty days cost as much as a millisecond.
func ExampleSleep() {
	remind := perdure.Define("remind", func(ctx context.Context, whom string) (string, error) {
		if err := perdure.Sleep(ctx, time.Millisecond); err != nil {
			return "", err
		}
		return perdure.Step(ctx, "mail", func(context.Context) (string, error) {
			return "reminded " + whom, nil
		})
	})

	engine, err := perdure.New(memory.New(), perdure.Options{})
	if err == nil {
		err = engine.Register(remind)
	}
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()
	defer func() { stop(); <-done }()

	run, err := remind.Start(ctx, engine, "Ada")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	// Output: reminded Ada <nil>
}

// Workflow code gets the time from [Now]. An instant that has passed is not waited for.
func ExampleSleepUntil() {
	w := perdure.Define("w", func(ctx context.Context, launch time.Time) (bool, error) {
		if err := perdure.SleepUntil(ctx, launch); err != nil {
			return false, err
		}
		now, err := perdure.Now(ctx)
		return !now.Before(launch), err
	})
	printResult(w, time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	// Output: true
}

// A timer runs beside the workflow: the first of the two ends is taken.
func ExampleTimer() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		deadline := perdure.Timer(ctx, "deadline", time.Hour)
		if _, err := perdure.Step(ctx, "work", func(context.Context) (bool, error) {
			return true, nil
		}); err != nil {
			return "", err
		}
		if intime, err := deadline.Cancel(ctx, "the work is done"); err != nil || !intime {
			return "too late", err
		}
		return "in time", nil
	})
	printResult(w, 0)
	// Output: in time
}

// A timer for an instant returns that instant.
func ExampleTimerUntil() {
	w := perdure.Define("w", func(ctx context.Context, at time.Time) (string, error) {
		fired, err := perdure.TimerUntil(ctx, "midnight", at).Await(ctx)
		return fired.Format(time.DateTime), err
	})
	printResult(w, time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	// Output: 2020-01-01 00:00:00
}

// A client may end a timer before its time.
func ExampleClient_CancelTimer() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		_, err := perdure.Timer(ctx, "cool-down", 24*time.Hour).Await(ctx)
		if errors.Is(err, &perdure.Error{Code: journal.CodeCancelled}) {
			return "somebody was in a hurry", nil
		}
		return "a day later", err
	})
	engine, stop := newEngine(w)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, w, 0, perdure.ID("launch"))
	untilStatus(engine.Client, "launch", journal.Waiting)
	fmt.Println(engine.CancelTimer(ctx, "launch", "cool-down", "it is cool"))
	fmt.Println(run.Result(ctx))
	// Output:
	// <nil>
	// somebody was in a hurry <nil>
}

// A run may ask an operator, and waits for any length of time.
func ExamplePark() {
	refund := perdure.Define("refund", func(ctx context.Context, cents int) (string, error) {
		d, err := perdure.Park(ctx, "large-refund", "more than we refund by ourselves", "refund",
			"refuse")
		return d.Choice + ": " + d.Reason, err
	})
	engine, stop := newEngine(refund)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, refund, 99900, perdure.ID("refund-1"))
	untilStatus(engine.Client, "refund-1", journal.Suspended)

	parked, _, err := admin.New(engine).Parked(ctx, journal.Cursor{}, 0)
	for _, p := range parked {
		for _, w := range p.Decisions {
			fmt.Println(p.Head.WorkflowID, w.Path, w.Choices, p.Why)
		}
	}
	fmt.Println(err)

	fmt.Println(engine.Decide(ctx, "refund-1", "large-refund", perdure.Decision{
		Choice: "refund", Reason: "an old customer",
	}))
	fmt.Println(run.Result(ctx))
	// Output:
	// refund-1 large-refund [refund refuse] more than we refund by ourselves
	// <nil>
	// <nil>
	// refund: an old customer <nil>
}

// A step that returns a Parking error parks its run until an operator has fixed the problem and
// resumes the run. Then the step is tried again.
func ExampleParking() {
	broken := true
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		return perdure.Step(ctx, "print", func(context.Context) (string, error) {
			if broken {
				return "", perdure.Parking(errors.New("no paper"))
			}
			return "printed", nil
		})
	})
	engine, stop := newEngine(w)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, w, 0, perdure.ID("w"))
	fmt.Println(untilStatus(engine.Client, "w", journal.Suspended).Head.Cause)
	broken = false
	fmt.Println(engine.Resume(ctx, "w"))
	fmt.Println(run.Result(ctx))
	// Output:
	// no paper
	// <nil>
	// printed <nil>
}

// An operator may suspend a run and resume it.
func ExampleClient_Suspend() {
	w := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		return "done", perdure.Sleep(ctx, 20*time.Millisecond)
	})
	engine, stop := newEngine(w)
	defer stop()
	ctx := context.Background()
	run := startRun(engine, w, 0, perdure.ID("w"))
	fmt.Println(engine.Suspend(ctx, "w", "the auditors are here"))
	parked, _, err := admin.New(engine).Parked(ctx, journal.Cursor{}, 0)
	for _, p := range parked {
		fmt.Println(p.Head.WorkflowID, p.Why)
	}
	fmt.Println(err)
	fmt.Println(engine.Resume(ctx, "w"))
	fmt.Println(run.Result(ctx))
	// Output:
	// <nil>
	// w the auditors are here
	// <nil>
	// <nil>
	// done <nil>
}
