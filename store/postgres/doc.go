// Package postgres keeps runs in PostgreSQL, for any number of nodes. Each node has an engine
// with a lease of its own. There is no coordinator. DESIGN.md beside this file explains the
// difficult decisions.
package postgres
