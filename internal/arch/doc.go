// Package arch holds the plan of the house as tests: which package may import
// which, and the budgets that keep files, functions and interfaces small. It
// has no code of its own.
//
// A rule that fails names the place and what to do instead. Each rule is also
// run over a small bad house, to see it fail there.
package arch
