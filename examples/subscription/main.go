// Command subscription runs subscriptions: thirty days are free, then there is a charge on the
// same day of each month, as long as the customer pays.
package main

import (
	"github.com/perdure/perdure/app"
	"github.com/perdure/perdure/examples/subscription/billing"
)

// Subscribe is the workflow of a subscription, with the bank of this program.
var Subscribe = billing.Subscribe(charge)

func main() { app.Main(Subscribe) }
