package journal

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Cursor is a position in a list of runs. A list begins with the run that was created last; of
// several that were created at the same time, with the one of the highest number. Runs that are
// added or removed meanwhile do not move the position. The zero Cursor is the beginning of a list
// where one is asked for, and the end of a list where one is returned.
//
// Its text, by String, is for the command line and for other programs. [ParseCursor] reads it.
type Cursor struct {
	Created int64 // nanoseconds since 1970
	Number  Number
}

// Cursor returns the position of the run in a list: the page after it begins with the next run.
func (h *Head) Cursor() Cursor {
	c := Cursor{Created: math.MinInt64, Number: h.Number}
	if first, last := h.Created.Year() < 1678, h.Created.Year() > 2261; last {
		c.Created = math.MaxInt64
	} else if !first {
		c.Created = h.Created.UnixNano()
	}
	return c
}

// IsZero reports whether c is the zero Cursor.
func (c Cursor) IsZero() bool { return c == Cursor{} }

// Compare returns -1 if c is of an older run than d, 1 if it is of a newer one, and 0 if both are
// equal.
func (c Cursor) Compare(d Cursor) int {
	return cmp.Or(cmp.Compare(c.Created, d.Created), cmp.Compare(c.Number, d.Number))
}

// String returns the text of the cursor: letters, digits, a dot and perhaps a minus. The text of
// the zero Cursor is empty.
func (c Cursor) String() string {
	if c.IsZero() {
		return ""
	}
	return strconv.FormatInt(c.Created, 36) + "." + strconv.FormatInt(int64(c.Number), 36)
}

// MarshalText returns String.
func (c Cursor) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText sets the cursor to that of a text, as [ParseCursor] does.
func (c *Cursor) UnmarshalText(text []byte) (err error) {
	*c, err = ParseCursor(string(text))
	return err
}

// ParseCursor returns the cursor with that text. The error has the code invalid.
func ParseCursor(text string) (Cursor, error) {
	if text == "" {
		return Cursor{}, nil
	}
	created, number, ok := strings.Cut(text, ".")
	at, err := strconv.ParseInt(created, 36, 64)
	n, err2 := strconv.ParseInt(number, 36, 64)
	c := Cursor{Created: at, Number: Number(n)}
	if !ok || err != nil || err2 != nil || n <= 0 || c.String() != text {
		return Cursor{}, &Error{
			Code: CodeInvalid, Op: "list",
			Message: fmt.Sprintf("cursor %s is not valid: allowed are cursors that a list returned",
				strconv.QuoteToASCII(text)),
			Hint: "leave the cursor out to list from the newest run",
		}
	}
	return c, nil
}
