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

// A many is a statement about several runs by their numbers, once for each size. A place
// in the list is one argument, or more.
type many struct {
	sql   [len(listSizes)]string
	width int
}

// listed gives the statement that has a list of numbers between two parts.
func listed(before, after string) many { return places(before+" in (", "?", ")"+after) }

// places returns the statement that has a list of such places between two parts.
func places(before, place, after string) many {
	m := many{width: strings.Count(place, "?")}
	for i, size := range listSizes {
		m.sql[i] = before + place + strings.Repeat(", "+place, size-1) + after
	}
	return m
}

// of gives the smallest statement that has room for the numbers, with its
// arguments: those that come first, and the numbers, zero where one is missing,
// which is no run.
func (m *many) of(numbers []driver.Value, first ...driver.Value) (string, []driver.Value) {
	i := 0
	for listSizes[i]*m.width < len(numbers) {
		i++
	}
	args := append(make([]driver.Value, 0, len(first)+listSizes[i]*m.width), first...)
	args = append(args, numbers...)
	for len(args) < cap(args) {
		args = append(args, int64(0))
	}
	return m.sql[i], args
}
