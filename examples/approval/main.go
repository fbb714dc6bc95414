// Command approval asks people to approve expenses: it asks a manager, reminds the manager,
// asks the director, and pays approved expenses.
package main

import (
	"github.com/perdure/perdure/app"
	"github.com/perdure/perdure/examples/approval/expense"
)

// Approve is the workflow of an expense, with the mail and the bank of this program.
var Approve = expense.Approve(outside)

func main() { app.Main(Approve) }
