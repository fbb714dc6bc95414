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
// same [perdure.IdempotencyKey]. That is the better choice where the other side knows keys.
package effect
