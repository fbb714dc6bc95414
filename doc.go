// Package perdure makes ordinary Go functions survive crashes.
//
//	var Fulfil = perdure.Define("order-fulfilment",
//		func(ctx context.Context, o Order) (Receipt, error) {
//			hold, err := perdure.Step(ctx, "reserve", func(ctx context.Context) (Hold, error) {
//				return stock.Reserve(ctx, perdure.IdempotencyKey(ctx), o)
//			})
//			if err != nil {
//				return Receipt{}, err
//			}
//			return perdure.Step(ctx, "charge", func(ctx context.Context) (Receipt, error) {
//				return card.Charge(ctx, perdure.IdempotencyKey(ctx), hold, o)
//			}, perdure.Retry{Attempts: 5})
//		})
//
// A [Workflow] is a function; a [Run] is one execution of it. The results of a run's durable
// operations ([Step], [Async], [Go], the methods of [Future]) are recorded in its journal, in a
// store. When the process dies, an [Engine] on that store calls the function again from the top.
// Recorded results are returned at once, and the function goes on at the first operation that is
// not recorded yet.
//
// # First names
//
// An application needs these first:
//
//   - to define: [Define], [Retry], [Timeout]
//   - steps: [Step], [Do], [IdempotencyKey], [Permanent], [Key], [Go]
//   - waits: [NewSignal], [Signal.Wait], [Within], [Sleep]
//   - to start and send: [Workflow.Start], [ID], [Run.Result], [Signal.Send]
//   - the engine: [New], [Options], [Engine.Register], [Engine.Run]
//   - errors: [Error], [RegisterError], [OnCancel]
//   - tests: Test, Start and CrashEverywhere of [github.com/perdure/perdure/perduretest]
//
// # Stores
//
// Packages store/memory, store/sqlite and store/postgres open stores. Function open.Store of
// package store/open opens the store that a text names, as the option --store of the command line
// does:
//
//	// or sqlite:orders.db, or memory:
//	db, err := open.Store(ctx, "postgres://shop@db.internal/shop")
//	engine, err := perdure.New(db, perdure.Options{})
//
// # Waiting
//
// A run waits for a time ([Sleep], [Timer]), a message ([Signal]), another run ([Workflow.Child])
// or an operator ([Park]). Meanwhile it is only in the store, for any length of time. When it
// goes on, its function is called again from the top. A [Client] starts, signals and reads runs
// from outside, also from another process.
//
// # What is promised
//
//   - A start that returned without an error is never lost: the run ends, in
//     this process or in another one.
//   - A step has one recorded result. The result is durable before the next step begins
//     and before it is visible outside. Workflow code gets the recorded result, live and
//     on replay: the value decoded from the recorded bytes, or the error with its
//     message, its chain and its registered identity.
//   - A message that was delivered to an open run is taken by one wait, or listed as unread
//     when the run ends: see [Delivery]. A timer is never early.
//   - Code that does not fit its journal is detected if that is certain. The run is then parked.
//     The message shows both sides, and nothing is lost.
//   - Only one goroutine of a run executes workflow code at a time, in an order that
//     is the same on replay. So branches may share variables.
//
// # What is not promised
//
//   - The effect of a step happens at least once, not exactly once: after a crash between the
//     effect and its record, the step is called again, with the same
//     [IdempotencyKey]. Pass the key to every system that can use it. Writes of a step to
//     the store's own database can be exactly once: [StepTx].
//   - Workflow code between durable operations runs again on every replay. It
//     must decide by its input and the results of durable operations. Effects,
//     clocks and random numbers belong in steps.
//   - If a workflow blocks outside of durable operations (a channel, a lock, a sleep) while
//     branches of its own could go on, the order that replay relies on is lost. A notice names the
//     place. The branches go on after a second or more.
//   - A deferred function in workflow code also runs when the run is unloaded, although the run has
//     not ended. It must only free memory and locks.
//   - A step that ignores its context is given up, not stopped: Go has
//     no way to stop a goroutine.
//
// # Words
//
// A run has a run ID, which is unique, and a workflow ID, by which the application knows it. At
// most one open run has a given workflow ID. The journal of a run has entries, each of which is
// one fact. Package [github.com/perdure/perdure/journal] has the kinds of entries, the statuses
// of runs, and errors. Notices, for logs and metrics, are in
// [github.com/perdure/perdure/observe].
package perdure
