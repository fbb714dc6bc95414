package expr

import (
	"fmt"
	"strings"
	"unicode"
)

const around = 40 // number of characters of a text that are shown before and after a place

// excerpt returns the text around a place on one line, with its line and column; without a place,
// the beginning of the text.
func excerpt(text string, at int) string {
	runes := []rune(strings.ToValidUTF8(text, "\ufffd"))
	where, mark := "", ""
	if at >= 0 {
		at = min(at, len(runes))
		before := string(runes[:at])
		line := strings.Count(before, "\n") + 1
		column := at - len([]rune(before[:strings.LastIndex(before, "\n")+1])) + 1
		where, mark = fmt.Sprintf(" at %d:%d", line, column), "▸"
	}
	at = max(at, 0)
	from, to := max(at-around, 0), min(at+around, len(runes))
	var b strings.Builder
	b.WriteString(where + " in: ")
	if from > 0 {
		b.WriteString("…")
	}
	b.WriteString(string(runes[from:at]) + mark + string(runes[at:to]))
	if to < len(runes) {
		b.WriteString("…")
	}
	return b.String()
}

// plain replaces characters that would break the line by spaces.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}
