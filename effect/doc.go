// Package effect has options of steps for effects on the outside world that need more care than a
// retry with the same key.
//
// [AtMostOnce] is for a body that must not be called twice: the bank knows no idempotency keys, or
// the device moves each time. A crash during the body makes the effect unknown, and the workflow
// decides what that means:
//
//	_, err := perdure.Step(ctx, "pay", pay, effect.AtMostOnce)
//	if errors.Is(err, effect.ErrInterrupted) {
//		paid, err = perdure.Step(ctx, "look", isPaid)
//	}
//
// Without the option a step is done at least once: after a crash its body is called again, with the
// same perdure.IdempotencyKey. That is the better choice where the other side knows keys.
//
// [Undo] is for an effect that has to go if the run does not succeed. The step has its compensation
// as an option, and no saga is declared:
//
//	c, err := perdure.Step(ctx, "charge", charge, effect.Undo(refund, effect.Parks))
//
// If the run fails, is cancelled or times out, what it has done is undone, the last first.
package effect
