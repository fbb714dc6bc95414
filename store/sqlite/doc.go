// Package sqlite keeps runs in an SQLite database, by a driver in pure Go. It is
// the default store.
//
// One file has everything; beside it are SQLite's own -wal and -shm and a small
// FILE-engine, whose lock says that an engine is at work. A commit is durable
// when it returns: WAL with synchronous=FULL, asked for at each opening and
// verified. Any number of processes may read, start runs and post messages at any
// time; one at a time executes runs.
//
// The tables are meant to be read by people: the views runs, journal and inbox
// show them in words.
//
//	sqlite3 runs.db "select seq, kind, name, data from journal where workflow_id = 'order-4711'"
//
// DESIGN.md beside this file says why it is built like this.
package sqlite
