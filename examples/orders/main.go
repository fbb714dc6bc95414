// Command orders fulfils orders by a saga: it reserves, charges and ships. When the carrier
// refuses, it returns the money and the goods.
package main

import (
	"github.com/perdure/perdure/app"
	"github.com/perdure/perdure/examples/orders/order"
)

// Fulfil is the saga, with the shop of this program.
var Fulfil = order.Fulfil(shop)

func main() { app.Main(Fulfil) }
