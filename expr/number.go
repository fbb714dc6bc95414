package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// Numbers are exact: a json.Number as it came, a *big.Rat once it was parsed. Rounding to float64
// never makes two of them equal.

// parseNumber parses a number of JSON. Its length and exponent are limited, and so is the cost of
// calculating with it.
func parseNumber(text string) (*big.Rat, error) {
	digits, exponent, has := strings.Cut(strings.ToLower(text), "e")
	if has {
		n, err := strconv.Atoi(exponent)
		if err != nil || n > maxDigits || n < -maxDigits {
			return nil, fmt.Errorf("the exponent of a number is over %d", maxDigits)
		}
	}
	if len(digits) > maxDigits {
		return nil, fmt.Errorf("a number has more than %d digits", maxDigits)
	}
	v, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, errors.New("this is not a number")
	}
	return v, nil
}

// number returns a value that must be a number.
func (r *run) number(operator string, v any) (*big.Rat, error) {
	switch v := v.(type) {
	case *big.Rat:
		return v, r.spend(bits(v) / 64)
	case json.Number:
		if err := r.spend(len(v) / 8); err != nil {
			return nil, err
		}
		return parseNumber(string(v))
	}
	return nil, fmt.Errorf("%s needs numbers, and this is %s", operator, kind(v))
}

func bits(v *big.Rat) int { return v.Num().BitLen() + v.Denom().BitLen() }

func (r *run) numbers(operator string, a, b any) (x, y *big.Rat, err error) {
	if x, err = r.number(operator, a); err != nil {
		return nil, nil, err
	}
	y, err = r.number(operator, b)
	return x, y, err
}

func (r *run) arithmetic(operator string, a, b any) (any, error) {
	x, y, err := r.numbers(operator, a, b)
	if err != nil {
		return nil, err
	}
	z := new(big.Rat)
	switch operator {
	case "+", "sum":
		z.Add(x, y)
	case "-":
		z.Sub(x, y)
	case "*":
		z.Mul(x, y)
	case "/":
		if y.Sign() == 0 {
			return nil, errors.New("division by zero")
		}
		z.Quo(x, y)
	case "%":
		if !x.IsInt() || !y.IsInt() || y.Sign() == 0 {
			return nil, errors.New("% needs whole numbers, the second of them not zero")
		}
		z.SetInt(new(big.Int).Rem(x.Num(), y.Num()))
	}
	if bits(z) > maxBits {
		return nil, fmt.Errorf("a number has more than %d bits", maxBits)
	}
	return z, nil
}

// plus adds numbers, and joins strings.
func (r *run) plus(a, b any) (any, error) {
	s, first := a.(string)
	t, second := b.(string)
	switch {
	case first && second && len(s)+len(t) > maxData:
		return nil, fmt.Errorf("a string has more than %d bytes", maxData)
	case first && second:
		return s + t, r.look(len(s) + len(t))
	case first || second:
		return nil, fmt.Errorf("+ needs two numbers or two strings, and these are %s and %s",
			kind(a), kind(b))
	}
	return r.arithmetic("+", a, b)
}
