package demo

// A shop has a shelf, a card reader and a carrier. The carrier does not go to Antarctica.
type shop struct{ stock int64 }

func (s *shop) do(c Call) (any, string) {
	switch action := c.Action(); {
	case action == Reserve && s.stock < c.Amount:
		return nil, "out of stock"
	case action == Reserve:
		s.stock -= c.Amount
	case action == Release:
		s.stock += c.Amount
	case action == Ship && c.Text == antarctica:
		return nil, "the carrier does not go there"
	}
	return reference(c), ""
}

func (s *shop) left(Call) int64 { return s.stock }

// antarctica is the country code that the carrier refuses.
const antarctica = "AQ"

// reference returns the answer of a service: a name for its work.
func reference(c Call) string { return string(c.Action()) + "-" + c.Run }
