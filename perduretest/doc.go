// Package perduretest tests workflows: with the real engine, in virtual time, and
// without mocks.
//
//	func TestOrderWaitsForItsPayment(t *testing.T) {
//		perduretest.Test(t, func(env *perduretest.Env) {
//			env.Step("reserve").Fail(2, errNoAnswer) // its policy tries it again
//
//			run := perduretest.Start(env, Fulfil, Order{ID: "4711"})
//			env.Sleep(23 * time.Hour)
//			run.Waits("paid")
//			env.Crash() // the next engine goes on
//
//			perduretest.Send(env, Paid, run.ID(), Payment{Amount: 42})
//			run.Returns(Receipt{Order: "4711"})
//			run.Executed("reserve", 3)
//		}, Fulfil)
//	}
//
// [Test] runs a function in a bubble of [testing/synctest] with an engine on a store in memory.
// Months pass at once, when everything waits for them. A run is unloaded at every wait, so its
// code is replayed from the top again and again, as can happen in production: code that does not
// belong in workflow code fails at once. At the end every journal is checked.
//
// [Start], [Get] and [Send] are typed as the workflow is; a [Run] has the assertions. [Env.Step]
// makes steps fail, hang or panic, and counts them. [Env.Crash], [Env.Restart] and [Env.Deploy]
// end engines.
//
// # Step by step
//
// After [Env.StepByStep] every attempt of a step is held back, of whichever pattern, and [Run.Next]
// lets one go on: the test drives the run to its end, looks at it in between, sends signals, and
// lets steps fail. Time passes only where nothing else can be done; [Run.Advance] lets the next
// timer or limit pass.
//
//	env.StepByStep()
//	run := perduretest.Start(env, Fulfil, Order{ID: "4711"})
//	step, _ := run.Next() // step.Path is "reserve", and its Status DONE
//	run.Waits("paid")
//	run.Advance() // nobody pays in time
//	run.Next("release")
//
// # Crashes
//
// [CrashEverywhere] runs a scenario again for every commit in it, with a crash right after that
// commit, and compares the outcomes:
//
//	func TestOrderBearsCrashes(t *testing.T) {
//		perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
//			shop.Reset()
//			run := perduretest.Start(env, Fulfil, Order{ID: "4711"})
//			perduretest.Send(env, Paid, run.ID(), Payment{Amount: 42})
//			run.Returns(Receipt{Order: "4711"})
//			return shop.Charges() // once, wherever the crash came
//		}, Fulfil)
//	}
//
// Steps in transactions and starts with In(tx) are tested as well. The store of a test is in memory
// and takes any transaction, such as one of a database that the test imitates. It writes at once,
// and keeps what it wrote if the transaction is rolled back afterwards. No crash is planned between
// the two.
//
// # Histories
//
// Before a change of a workflow is deployed, it can be tried on the histories of its runs.
// [Export] returns the history of a run, also in production. [Replay] makes the present code
// replay it, without effects, and returns the differences:
//
//	func TestPresentCodeFitsOrders(t *testing.T) {
//		perduretest.ReplayFile(t, "testdata/order-4711.jsonl", Fulfil).Fits()
//	}
package perduretest
