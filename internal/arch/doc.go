// Package arch has the rules of this module as tests: which package may import which, the budgets
// that keep packages, files, functions and types small, and the language of comments and errors. It
// has no code of its own.
//
// A rule that fails names the place and the mend. Each rule is also run over a small module that
// breaks it, so that its failure is tested.
package arch
