package sqlite

import (
	"database/sql/driver"
	"strings"
)

// runsAtATime is how many runs one statement is for at most.
const runsAtATime = 64

// listSizes are the sizes of lists. Each place in a list costs something, also
// one that is empty, and each statement is prepared once.
var listSizes = [...]int{1, 8, runsAtATime}

// A many is a statement about several runs by their numbers, once for each size.
type many [len(listSizes)]string

// listed gives the statement that has a list of numbers between two parts.
func listed(before, after string) (m many) {
	for i, size := range listSizes {
		m[i] = before + " in (?" + strings.Repeat(", ?", size-1) + ")" + after
	}
	return m
}

// of gives the smallest statement that has room for the numbers, with its
// arguments: those that come first, and the numbers, zero where one is missing,
// which is no run.
func (m *many) of(numbers []driver.Value, first ...driver.Value) (string, []driver.Value) {
	i := 0
	for listSizes[i] < len(numbers) {
		i++
	}
	args := append(make([]driver.Value, 0, len(first)+listSizes[i]), first...)
	args = append(args, numbers...)
	for len(args) < cap(args) {
		args = append(args, int64(0))
	}
	return m[i], args
}
