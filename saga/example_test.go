package saga_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/store/memory"
)

// An Order is a customer's order: the input of the sagas.
type Order struct {
	Item  string
	Cents int
	Boxes []string
}

var errNoMoney = errors.New("there is not enough money")

func reserve(_ context.Context, o Order) (string, error) { return "hold of a " + o.Item, nil }

func release(_ context.Context, _ Order, hold string) error {
	fmt.Println("released:", hold)
	return nil
}

func charge(_ context.Context, o Order) (int, error) {
	if o.Cents > 1000 {
		return 0, perdure.Permanent(errNoMoney)
	}
	return o.Cents, nil
}

func refund(_ context.Context, _ Order, cents int) error {
	fmt.Println("refunded:", cents)
	return nil
}

// with runs an engine that knows some definitions while use uses it.
func with(use func(context.Context, *perdure.Engine), definitions ...perdure.Definition) {
	ctx, stop := context.WithCancel(context.Background())
	engine, err := perdure.New(memory.New(), perdure.Options{})
	if err == nil {
		err = engine.Register(definitions...)
	}
	if err != nil {
		log.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()
	use(ctx, engine)
	stop()
	<-done
}

// A saga with two steps. The second step may fail; then the first step is undone.
func Example() {
	order := saga.New[Order]("order")
	held := saga.Add(order, "reserve", reserve).Undo(release)
	charged := saga.Add(order, "charge", charge).After(held)
	order.Output(charged)

	with(func(ctx context.Context, engine *perdure.Engine) {
		for _, o := range []Order{{Item: "cup", Cents: 700}, {Item: "teapot", Cents: 4200}} {
			r, err := order.Execute(ctx, engine, o)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(r.Status, r.Err, r.FirstFailed(), r.CompensatedSteps())
		}
	}, order)
	// Output:
	// COMPLETED <nil>  []
	// released: hold of a teapot
	// FAILED step charge failed: there is not enough money charge [reserve]
}

// A step over a list becomes one step for each item. Each of them is undone separately.
func ExampleAddEach() {
	order := saga.New[Order]("order").Policy(saga.GroupedParallel)
	packed := saga.AddEach(order, "pack", func(o Order) []string { return o.Boxes },
		func(_ context.Context, box string) (int, error) {
			return len(box), nil
		}).Named(func(box string) string { return box })
	type all struct {
		Sizes []int `perdure:"step=pack"`
	}
	saga.Add(order, "weigh", func(_ context.Context, in all) (string, error) {
		return fmt.Sprint(in.Sizes), nil
	}).After(packed)

	with(func(ctx context.Context, engine *perdure.Engine) {
		r, err := order.Execute(ctx, engine, Order{Boxes: []string{"small", "larger"}})
		if err != nil {
			log.Fatal(err)
		}
		for _, s := range r.Steps {
			fmt.Println(strings.TrimSpace(fmt.Sprintln(s.ID, s.Status, string(s.Result))))
		}
		sizes, err := packed.AllOf(r)
		fmt.Println(sizes, err)
	}, order)
	// Unordered output:
	// pack[small] DONE 5
	// pack[larger] DONE 6
	// weigh DONE "[5 6]"
	// map[pack[larger]:6 pack[small]:5] <nil>
}

// A handler decides, by its argument alone, how the saga continues after a failed compensation.
func ExampleSaga_OnUndoError() {
	order := saga.New[Order]("order").OnUndoError(func(e saga.UndoError) saga.Action {
		if e.Retries < 2 {
			return saga.Retry
		}
		return saga.Continue
	})
	calls := 0
	held := saga.Add(order, "reserve", reserve).Undo(func(context.Context, Order, string) error {
		if calls++; calls == 1 {
			return errors.New("nobody answers")
		}
		fmt.Println("released, when asked again")
		return nil
	})
	saga.Add(order, "charge", charge).After(held)

	with(func(ctx context.Context, engine *perdure.Engine) {
		r, err := order.Execute(ctx, engine, Order{Cents: 4200})
		fmt.Println(r.Status, r.CompensatedSteps(), err)
	}, order)
	// Output:
	// released, when asked again
	// FAILED [reserve] <nil>
}

// A composition is made of sagas. The input of a member is made from the composition's input and
// from the results of other members. If a member fails, the members that are done are undone.
func ExampleCompose() {
	stock, bank := saga.New[Order]("stock"), saga.New[Order]("bank")
	held := saga.Add(stock, "reserve", reserve).Undo(release)
	saga.Add(bank, "charge", charge).Undo(refund)

	buy := saga.Compose[Order]("buy")
	goods := saga.Include(buy, "goods", stock)
	saga.Include(buy, "money", bank).After(goods).Map("Item", saga.FromStep(goods, held))

	fmt.Print(buy.Graph().Mermaid())
	with(func(ctx context.Context, engine *perdure.Engine) {
		r, err := buy.Execute(ctx, engine, Order{Item: "teapot", Cents: 4200})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.Status, r.Err)
		fmt.Println(r.Member("goods").CompensatedSteps(), r.MemberStatus("money"))
	}, buy)
	// Output:
	// flowchart LR
	//     n0["goods"]
	//     n1["money"]
	//     n0 --> n1
	// released: hold of a teapot
	// FAILED step money failed: step charge failed: there is not enough money
	// [reserve] FAILED
}

// Inline runs a saga as a part of a workflow in code, which may undo it later.
func ExampleSaga_Inline() {
	pay := saga.New[Order]("pay")
	saga.Add(pay, "charge", charge).Undo(refund)
	buy := perdure.Define("buy", func(ctx context.Context, o Order) (string, error) {
		part, err := pay.Inline(ctx, "pay", o)
		if err != nil || part.Err() != nil {
			return "", errors.Join(err, part.Err())
		}
		if o.Item == "sledge" { // nobody has one
			return "the money is back", part.Undo(ctx)
		}
		return "paid", nil
	})
	with(func(ctx context.Context, engine *perdure.Engine) {
		run, err := buy.Start(ctx, engine, Order{Item: "sledge", Cents: 900})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(run.Result(ctx))
	}, buy)
	// Output:
	// refunded: 900
	// the money is back <nil>
}
