// Package near finds the word that a mistyped one may mean.
package near

import (
	"slices"
	"strings"
)

// Hint returns the hint that a word of a list was meant: the one with the fewest letters to
// change. It is empty if none is near.
func Hint(typed string, words []string) string {
	best, near := max(len(typed)/3, 1)+1, ""
	for _, w := range words {
		if n := distance(strings.ToLower(typed), strings.ToLower(w), best); n < best {
			best, near = n, w
		}
	}
	if near == "" {
		return ""
	}
	return "did you mean " + near + "?"
}

// distance returns how many letters are to be changed, added or left out to make b of a, and at
// least most if there are so many.
func distance(a, b string, most int) int {
	if len(a)-len(b) >= most || len(b)-len(a) >= most {
		return most
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := slices.Clone(row)
		row[0] = i + 1
		for j := range len(b) {
			same := before[j]
			if a[i] != b[j] {
				same++
			}
			row[j+1] = min(same, before[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
