// Package howto is the code of the page about deploying changed code.
package howto

import (
	"context"

	"github.com/perdure/perdure"
)

// Paid brings a payment to the run of an order.
var Paid = perdure.NewSignal[int]("paid")

// First is the workflow as it was deployed first.
var First = perdure.Define("order", func(ctx context.Context, id string) (string, error) {
	if err := do(ctx, "reserve"); err != nil {
		return "", err
	}
	if _, err := Paid.Wait(ctx); err != nil {
		return "", err
	}
	return id + " is shipped", do(ctx, "ship")
})

// Longer has one more step at the end. Every run takes it.
var Longer = perdure.Define("order", func(ctx context.Context, id string) (string, error) {
	if err := do(ctx, "reserve"); err != nil {
		return "", err
	}
	if _, err := Paid.Wait(ctx); err != nil {
		return "", err
	}
	if err := do(ctx, "ship"); err != nil {
		return "", err
	}
	return id + " is shipped", do(ctx, "thank")
})

// Renamed calls the step reserve another name, and says so.
var Renamed = perdure.Define("order", func(ctx context.Context, id string) (string, error) {
	if err := do(ctx, "hold", perdure.RenamedFrom("reserve")); err != nil {
		return "", err
	}
	if _, err := Paid.Wait(ctx); err != nil {
		return "", err
	}
	return id + " is shipped", do(ctx, "ship")
})

// Checked has a step before others. Runs that are past it do it late.
var Checked = perdure.Define("order", func(ctx context.Context, id string) (string, error) {
	if err := do(ctx, "check-address", perdure.Added); err != nil {
		return "", err
	}
	if err := do(ctx, "reserve"); err != nil {
		return "", err
	}
	if _, err := Paid.Wait(ctx); err != nil {
		return "", err
	}
	return id + " is shipped", do(ctx, "ship")
})

// Versioned has new runs ask for the payment first. Runs that are past that place go on as
// they began.
var Versioned = perdure.Define("order", func(ctx context.Context, id string) (string, error) {
	v, err := perdure.Version(ctx, "pay-first", 1)
	if err != nil {
		return "", err
	}
	if v == 0 {
		if err := do(ctx, "reserve"); err != nil {
			return "", err
		}
	}
	if _, err := Paid.Wait(ctx); err != nil {
		return "", err
	}
	if v >= 1 {
		if err := do(ctx, "reserve"); err != nil {
			return "", err
		}
	}
	return id + " is shipped", do(ctx, "ship")
})

// Unsaid has a step before others and does not say so: runs that are past it are suspended.
var Unsaid = perdure.Define("order", func(ctx context.Context, id string) (string, error) {
	if err := do(ctx, "check-address"); err != nil {
		return "", err
	}
	if err := do(ctx, "reserve"); err != nil {
		return "", err
	}
	if _, err := Paid.Wait(ctx); err != nil {
		return "", err
	}
	return id + " is shipped", do(ctx, "ship")
})

func do(ctx context.Context, name string, opts ...perdure.StepOption) error {
	return perdure.Do(ctx, name, func(context.Context) error { return nil }, opts...)
}
