// Package callback lets workflow code wait for somebody outside who has nothing but a token: a bank
// that calls back, a worker of another system, a person with a link in a mail.
//
//	w, err := callback.New[Receipt](ctx, "card", perdure.Within(24*time.Hour)) // the wait begins
//
//	err = perdure.Do(ctx, "ask-bank", func(ctx context.Context) error {
//		token, err := w.Token(ctx) // in the body of a step; it is not recorded
//		if err != nil {
//			return err
//		}
//		return bank.Charge(ctx, amount, "https://shop.example/paid?token="+token)
//	})
//
//	receipt, err := w.Await(ctx) // what the bank has answered, or an error
//
// Outside, with an engine or a client of the same store:
//
//	err := callback.Succeed(ctx, client, token, receipt)
//	err := callback.Fail(ctx, client, token, "the card was refused")
//	err := callback.Heartbeat(ctx, client, token, time.Hour) // it goes on, and needs more time
//
// or with the command perdure callbacks.
//
// # The token
//
// A token is signed with a key of the database and fits into a link. It is for one wait of one run.
// Nobody can make one up, but everybody who has it can use it, so hand it out as you would a
// password. Nothing of it is in the journal: [Wait.Token] computes the same token each time, until
// the keys of the database are rotated, and earlier tokens stay good then.
//
// The first answer wins, and it is durable when the call returns. The same answer again is no error
// and does nothing; another one gets [ErrAnswered]. A token is of no use when the wait is over,
// because its time has passed ([ErrExpired]), or because the run has ended or the wait was
// cancelled ([ErrEnded]). Then nothing is recorded. One thing cannot be known: an answer that comes
// at the very moment at which the wait ends by itself may be durable and not be taken. Whoever has
// to know asks for the status of the run.
//
// # Time
//
// The limits of a wait are those of a signal: [perdure.Within] and [perdure.Until]. Without one it
// waits as long as the run is open. [Heartbeat] moves the limit to a later time and never to an
// earlier one. The new limit is durable when the call returns. The time is that of the clock of the
// caller. While a run is suspended, its time passes: after the limit, no answer is taken, and the
// wait ends when the run is resumed. Answers that came before the limit count.
//
// # Runs that go on
//
//   - A retry or skip of a failed run (perdure.Client.Retry, runs skip) is a new run that goes on
//     from the old one. Who was given a token before is not asked again, so the token is for the
//     new run too, if that comes to the wait once more: because the wait was open when the old run
//     ended, or was failed or expired. A payload that the old run has taken stays. Tell the holder
//     of a token that was failed, since the new run waits for another answer, or fork the run from
//     the step that hands out the token.
//   - A fork does its steps again on purpose, and hands out its own tokens. Those of its source do
//     not work for it.
//   - A run that continues as new ends its waits. The tokens are of no use for the next run.
//   - A crash, a restart or another engine change nothing.
package callback
