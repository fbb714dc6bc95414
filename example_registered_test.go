package perdure_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/perdure/perdure"
)

// ErrNoMoney is compared by those who called the step.
var ErrNoMoney = errors.New("there is no money on the card")

// A DeclinedError has fields that they look at.
type DeclinedError struct{ Card, Why string }

func (e DeclinedError) Error() string { return e.Card + " was declined: " + e.Why }

func init() {
	if err := perdure.RegisterError("card.no-money", ErrNoMoney); err != nil {
		log.Fatal(err)
	}
	if err := perdure.RegisterErrorType[DeclinedError]("card.declined"); err != nil {
		log.Fatal(err)
	}
}

// Errors that are registered while the program starts are found in what a journal
// kept: at once, after a crash, and in another process.
func ExampleRegisterError() {
	pay := perdure.Define("pay", func(ctx context.Context, card string) (int, error) {
		_, err := perdure.Step(ctx, "charge", func(context.Context) (int, error) {
			return 0, fmt.Errorf("charge: %w", errors.Join(ErrNoMoney, DeclinedError{Card: card, Why: "over its limit"}))
		}, perdure.NoRetry)
		return 0, err
	})
	engine, stop := newEngine(pay)
	defer stop()
	_, err := startRun(engine, pay, "tok_1").Result(context.Background())

	fmt.Println(errors.Is(err, ErrNoMoney))
	var declined DeclinedError
	fmt.Println(errors.As(err, &declined), declined.Why)
	// Output:
	// true
	// true over its limit
}

// A test of the application finds what is odd with a definition, without an engine.
func ExampleCheck() {
	report := perdure.Define("report", func(context.Context, string) (string, error) { return "", nil }, perdure.Timeout(48*time.Hour))
	for _, issue := range perdure.Check(report) {
		fmt.Println(issue)
	}
	// Output:
	// WARNING: timeout: a timeout of 48h0m0s
}
