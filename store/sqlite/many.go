package sqlite

import (
	"database/sql/driver"
	"strings"
)

// runsAtATime limits how many runs one statement is for.
const runsAtATime = 64

// listSizes are the sizes of lists. Each place in a list has a cost, even if it is empty, and each
// statement is prepared only once.
var listSizes = [...]int{1, 8, runsAtATime}

// A many is a statement about several runs by number, with one text for each size of list. A place
// in the list takes one argument or more.
type many struct {
	sql   [len(listSizes)]string
	width int
}

// listed returns the statement with a list of numbers between two parts.
func listed(before, after string) many { return places(before+" in (", "?", ")"+after) }

// places returns the statement with a list of places between two parts.
func places(before, place, after string) many {
	m := many{width: strings.Count(place, "?")}
	for i, size := range listSizes {
		m.sql[i] = before + place + strings.Repeat(", "+place, size-1) + after
	}
	return m
}

// of returns the smallest statement that has room for the numbers, and its arguments: first the
// arguments in first, then the numbers. Unused places get zero, which is the number of no run.
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
