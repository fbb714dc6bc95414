package journal

import (
	"encoding/json"
	"strconv"
)

// MarshalText returns the status's name; nothing for zero.
func (s Status) MarshalText() ([]byte, error) { return nameOf("status", s) }

// UnmarshalText reads the output of MarshalText.
func (s *Status) UnmarshalText(text []byte) error {
	return named("status", text, s, ParseStatus)
}

// UnmarshalJSON reads a name, or the number that older versions wrote.
func (s *Status) UnmarshalJSON(data []byte) error {
	return namedOrNumber("status", data, s, ParseStatus)
}

// MarshalText returns the kind's name; nothing for zero.
func (k Kind) MarshalText() ([]byte, error) { return nameOf("kind", k) }

// UnmarshalText reads the output of MarshalText.
func (k *Kind) UnmarshalText(text []byte) error { return named("kind", text, k, ParseKind) }

// UnmarshalJSON reads a name, or the number that older versions wrote.
func (k *Kind) UnmarshalJSON(data []byte) error {
	return namedOrNumber("kind", data, k, ParseKind)
}

// Valid reports whether p is one of the patterns.
func (p Pattern) Valid() bool { return int(p) < len(patternNames) }

// ParsePattern returns the pattern with a name that String returned.
func ParsePattern(name string) (Pattern, bool) {
	for p, n := range patternNames {
		if n == name {
			return Pattern(p), true
		}
	}
	return 0, false
}

// MarshalText returns the pattern's name.
func (p Pattern) MarshalText() ([]byte, error) {
	if !p.Valid() {
		return nameOf("pattern", p)
	}
	return []byte(p.String()), nil
}

// UnmarshalText reads the output of MarshalText.
func (p *Pattern) UnmarshalText(text []byte) error {
	return named("pattern", text, p, ParsePattern)
}

// UnmarshalJSON reads a name, or the number that older versions wrote.
func (p *Pattern) UnmarshalJSON(data []byte) error {
	return namedOrNumber("pattern", data, p, ParsePattern)
}

// nameOf returns the name of a value; nothing for zero.
func nameOf[T interface {
	~uint8
	Valid() bool
	String() string
}](what string, v T) ([]byte, error) {
	switch {
	case v == 0:
		return []byte{}, nil
	case !v.Valid():
		return nil, &Error{Code: CodeEncode, Op: what, Message: v.String() + " has no name"}
	}
	return []byte(v.String()), nil
}

// named sets v to the value of a name; nothing is zero.
func named[T ~uint8](what string, text []byte, v *T, parse func(string) (T, bool)) error {
	if len(text) == 0 {
		*v = 0
		return nil
	}
	parsed, ok := parse(string(text))
	if !ok {
		return &Error{Code: CodeDecode, Op: what, Message: strconv.Quote(string(text)) + " is no " +
			what}
	}
	*v = parsed
	return nil
}

// namedOrNumber sets v to the value of a name or number in JSON; null changes nothing.
func namedOrNumber[T interface {
	~uint8
	Valid() bool
}](what string, data []byte, v *T, parse func(string) (T, bool)) error {
	if string(data) == "null" {
		return nil
	}
	if len(data) > 0 && data[0] == '"' {
		var name string
		if err := json.Unmarshal(data, &name); err != nil {
			return err
		}
		return named(what, []byte(name), v, parse)
	}
	n, err := strconv.ParseUint(string(data), 10, 8)
	if err != nil || n != 0 && !T(n).Valid() {
		return &Error{Code: CodeDecode, Op: what, Message: string(data) + " is the number of no " +
			what}
	}
	*v = T(n)
	return nil
}
