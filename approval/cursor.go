package approval

import (
	"cmp"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/failure"
)

// A Cursor is a position in a list of open asks, which is in the order of the times of the asks.
// Asks that are added or decided meanwhile do not move the position. The zero Cursor is the
// beginning of a list where one is asked for, and the end of a list where one is returned.
type Cursor struct {
	Asked time.Time
	RunID string
	Key   string
}

// IsZero reports whether c is the zero Cursor.
func (c Cursor) IsZero() bool { return c == Cursor{} }

func (c Cursor) compare(d Cursor) int {
	return cmp.Or(c.Asked.Compare(d.Asked), cmp.Compare(c.RunID, d.RunID),
		cmp.Compare(c.Key, d.Key))
}

// String returns the text of the cursor, for the command line and for other programs. The text of
// the zero Cursor is empty.
func (c Cursor) String() string {
	if c.IsZero() {
		return ""
	}
	return c.Asked.UTC().Format(time.RFC3339Nano) + "/" + c.RunID + "/" + c.Key
}

// ParseCursor returns the cursor with that text. The error has the code invalid.
func ParseCursor(text string) (Cursor, error) {
	if text == "" {
		return Cursor{}, nil
	}
	parts := strings.Split(text, "/")
	if len(parts) == 3 {
		at, err := time.Parse(time.RFC3339Nano, parts[0])
		if c := (Cursor{at, parts[1], parts[2]}); err == nil && c.String() == text {
			return c, nil
		}
	}
	return Cursor{}, failure.Invalid("list approvals", "cursor %s is not valid: allowed are "+
		"cursors that a list returned", failure.Quoted(text))
}
