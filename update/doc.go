// Package update sends a run a message with a typed, durable reply.
//
//	var Raise = update.New[Request, Receipt]("raise", func(r Request) error {
//		if r.Cents <= 0 {
//			return errNotPositive
//		}
//		return nil
//	})
//
// Outside, [Update.Send] sends the message and waits for the reply. [SendWithStart] also starts the
// run if no open run has the workflow ID, in one act.
//
//	receipt, err := Raise.Send(ctx, client, "order-1001", r, perdure.SendKey("r-7"))
//
// In workflow code, [Update.Wait] takes the next message, and [Ask.Reply] or [Ask.Refuse] replies.
// [Update.Serve] replies to each message in a branch, until the run ends.
//
//	ask, err := Raise.Wait(ctx)
//	...
//	err = ask.Reply(ctx, Receipt{Total: total})
//
// # What is promised
//
//   - The reply is an entry of the run's journal. It is durable before the sender gets it, and so
//     is everything that the run did before it.
//   - The validator is called in the sender. If it refuses the message, nothing is sent and nothing
//     is recorded. It is called again where the message is taken, because another sender may not
//     have it. That verdict is recorded, so another build may have another validator. A validator
//     must decide by its argument alone.
//   - A message is sent once, however often it is sent with the same key ([perdure.SendKey]) to the
//     same run, or to the runs that it continues as. Each sender with that key gets the same reply,
//     also after the run has ended, as long as the run is kept. So a sender that does not know
//     whether its message arrived sends it again with the same key.
//   - A refusal keeps registered errors ([perdure.RegisterError]): errors.Is finds them, in another
//     process too.
//
// An update waits for an open run: without one, the error has the code not_found, and the message
// is not kept. If the run ends without a reply, the error has the code conflict. If ctx ends first,
// the outcome is unknown, and the error has the key that learns it.
//
// # What is not promised
//
// A run replies when its code comes to it. A run that is suspended, paused, or held back does not
// reply meanwhile, so give the context a time limit. A message that a run has taken and not replied
// to when it continues as new has no reply; a message that it has not taken moves along.
//
// The message is a signal in the run's inbox. A plain signal of the same name is taken like an
// update, and its reply is recorded, but nobody waits for it.
package update
