// Command poller asks a shop for its new orders every ten seconds. Each run asks for the orders
// since the last run that succeeded, so none is left out and none is taken twice.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure/app"
	"github.com/perdure/perdure/examples/poller/feed"
)

// Poll is the workflow of the poller, with the shop of this program.
var Poll = feed.Poll(orders, 10*time.Second)

// orders is the shop: a customer orders each three seconds.
func orders(_ context.Context, after, until time.Time) (orders []string, err error) {
	for t := after.Unix() + 1; t <= until.Unix(); t++ {
		if t%3 == 0 {
			orders = append(orders, fmt.Sprint("order-", t))
		}
	}
	return orders, nil
}

func main() { app.Main(Poll) }
