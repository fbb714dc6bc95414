// Package postgres keeps runs in PostgreSQL, for any number of nodes: each has an
// engine with a lease of its own, and there is no coordinator. DESIGN.md beside this
// file argues the hard parts.
package postgres
