// Command quota sends contacts to the CRM of each customer, which takes two calls for each second
// of a customer, whatever runs and engines make them.
package main

import (
	"context"

	"github.com/perdure/perdure/app"
	"github.com/perdure/perdure/examples/quota/crm"
)

// Contacts is the workflow of this program. Its CRM takes everything.
var Contacts = crm.Contacts(func(context.Context, string, string) error { return nil }, 2)

func main() { app.Main(Contacts) }
