// Package howto has the code of the page about limits.
package howto

import (
	"context"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/limit"
)

// An Export is the input of Exports.
type Export struct {
	Customer string
	Pages    int
}

// A Maker makes the pages of an export.
type Maker interface {
	Make(ctx context.Context, page int) error
}

// A Printer prints for one run at a time.
type Printer interface {
	Print(ctx context.Context) error
}

// Exports limits how many of its runs go on at a time, in all and for each customer.
func Exports(maker Maker) *perdure.Workflow[Export, int] {
	return perdure.Define("export", func(ctx context.Context, e Export) (int, error) {
		for page := range e.Pages {
			if err := perdure.Do(ctx, "make", func(ctx context.Context) error {
				return maker.Make(ctx, page)
			}, limit.Control{
				Name: "maker", Key: limit.Is(e.Customer),
				Rate: limit.Rate{Tokens: 60, Per: time.Minute, Burst: 10},
			}); err != nil {
				return page, err
			}
		}
		return e.Pages, nil
	}, limit.Control{
		Concurrency: 20,
		PerKey:      2,
		Key:         limit.By(func(e Export) string { return e.Customer }),
		Fair:        true,
	})
}

// Label takes the printer for the part of its work that needs it.
func Label(printer Printer) *perdure.Workflow[string, string] {
	lock := limit.Semaphore{Name: "printer"}
	return perdure.Define("label", func(ctx context.Context, text string) (string, error) {
		return text, lock.Do(ctx, func(ctx context.Context) error {
			return perdure.Do(ctx, "print", printer.Print)
		})
	})
}
