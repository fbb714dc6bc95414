package demo

// A shop has a shelf, a card reader and a carrier.
type shop struct {
	stock   int64
	refused map[string]bool // orders that the carrier will not take
}

func newShop(stock int64, refused []string) *shop {
	s := &shop{stock: stock, refused: map[string]bool{}}
	for _, id := range refused {
		s.refused[id] = true
	}
	return s
}

func (s *shop) do(c Call) (any, string) {
	switch c.Action {
	case Reserve:
		if s.stock < c.Amount {
			return nil, "out of stock"
		}
		s.stock -= c.Amount
	case Release:
		s.stock += c.Amount
	case Ship:
		if s.refused[c.Run] {
			return nil, "the carrier does not go there"
		}
	}
	return reference(c), ""
}

func (s *shop) left(Call) int64 { return s.stock }

// reference is what a service calls what it did.
func reference(c Call) string { return string(c.Action) + "-" + c.Run }
