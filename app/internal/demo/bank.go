package demo

import "fmt"

// An Account is money at the bank.
type Account struct {
	Name   string `json:"name"`
	Cents  int64  `json:"cents"`
	Closed bool   `json:"closed,omitempty"` // it refuses money
}

// A bank has accounts.
type bank map[string]*Account

// newBank returns a bank with its own copy of the accounts.
func newBank(accounts []Account) *bank {
	b := bank{}
	for _, a := range accounts {
		b[a.Name] = &a
	}
	return &b
}

func (b bank) do(c Call) (any, string) {
	a := b[c.Account]
	switch {
	case a == nil:
		return nil, "there is no account " + c.Account
	case c.Action() == Hold && a.Cents < c.Amount:
		return nil, "too little money"
	case c.Action() == Hold:
		a.Cents -= c.Amount
	case c.Action() == Announce && a.Closed:
		return nil, "the account is closed"
	case c.Action() == Give, c.Action() == GiveBack:
		a.Cents += c.Amount
	}
	return reference(c), ""
}

func (b bank) left(c Call) int64 {
	if a := b[c.Account]; a != nil {
		return a.Cents
	}
	return 0
}

// amount formats cents as people write them: 10,000.00.
func amount(cents int64) string {
	whole := fmt.Sprint(cents / 100)
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return fmt.Sprintf("%s.%02d", whole, cents%100)
}
