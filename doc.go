// Package perdure makes ordinary Go functions survive crashes.
//
//	var Fulfil = perdure.Define("order-fulfilment", func(ctx context.Context, o Order) (Receipt, error) {
//		hold, err := perdure.Step(ctx, "reserve", func(ctx context.Context) (Hold, error) {
//			return stock.Reserve(ctx, perdure.IdempotencyKey(ctx), o)
//		})
//		if err != nil {
//			return Receipt{}, err
//		}
//		return perdure.Step(ctx, "charge", func(ctx context.Context) (Receipt, error) {
//			return card.Charge(ctx, perdure.IdempotencyKey(ctx), hold, o)
//		}, perdure.Retry{Attempts: 5})
//	})
//
// A [Workflow] is a function; a [Run] is one execution of it. What a run does in
// durable operations ([Step], [Async], [Go], the methods of [Future]) is
// recorded in its journal, in a store. When the process dies, an [Engine] on
// that store calls the function again from the top: what is recorded comes back
// at once, and the function goes on where nothing is recorded yet.
//
// # Stores
//
// Packages store/memory, store/sqlite and store/postgres open stores, and open.Store of package
// store/open the one that a text names, as the option --store of the command line does:
//
//	db, err := open.Store(ctx, "postgres://shop@db.internal/shop") // or sqlite:orders.db, or memory:
//	engine, err := perdure.New(db, perdure.Options{})
//
// # Waiting
//
// A run waits for a time ([Sleep], [Timer]), a message ([Signal]), another run
// ([Workflow.Child]) or an operator ([Park]). Meanwhile it is in the store and
// nowhere else, however long that takes. Its function is called again from the top
// when it goes on. [Client] is what the outside does with runs, also from another
// process.
//
// # What is promised
//
//   - A start that returned without an error is never lost: the run ends, in
//     this process or in another one.
//   - A step has one recorded result. It is durable before the next step begins
//     and before anybody hears of it, and it is what workflow code sees, live as
//     on replay: the value decoded from the recorded bytes, the error with its
//     message, its chain and its registered identity.
//   - A message that was acknowledged is taken by one wait, or listed as unread
//     when its run ends. A timer is never early.
//   - Code that does not fit its journal is noticed where that is certain, and
//     the run is parked, with both sides in the message and nothing lost.
//   - Of a run's goroutines one at a time runs workflow code, in an order that
//     is the same on replay. So branches may share variables.
//
// # What is not promised
//
//   - A step's effect happens at least once, not exactly once: a crash after the
//     effect and before its record calls the step again, with the same
//     [IdempotencyKey]. Give the key to whoever can use it. What a step writes to the
//     store's own database can be exactly once: [StepTx].
//   - Workflow code between durable operations runs again on every replay. It
//     must decide by its input and what durable operations gave it. Effects,
//     clocks and random numbers belong in steps.
//   - A workflow that blocks outside of durable operations (a channel, a lock, a
//     sleep), while branches of its own could go on, gives up the order that
//     replay relies on; a notice says where. It takes a second or more until the
//     branches go on.
//   - A deferred function in workflow code also runs when the run only leaves
//     memory. It must only free memory and locks.
//   - A step that ignores its context is given up, not stopped: the language has
//     no way to stop a goroutine.
//
// # Words
//
// A run has a run ID, which is unique, and a workflow ID, by which the
// application knows it; at most one open run has a given workflow ID. Its
// journal has entries, each one fact; package
// [github.com/perdure/perdure/journal] has their kinds, the statuses of runs,
// and errors. Notices, for logs and metrics, are in
// [github.com/perdure/perdure/observe].
package perdure
