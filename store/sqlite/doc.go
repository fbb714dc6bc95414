// Package sqlite keeps runs in an SQLite database, with a driver in pure Go. It is the default
// store.
//
// One file has everything. Beside it are SQLite's own -wal and -shm files and a small file
// FILE-engine. A lock on that file means that an engine is at work; until the engine ends, a file
// FILE-engine-journal of SQLite is beside it. A commit is durable when it returns: the database is
// in WAL mode with synchronous=FULL, which each opening sets and verifies. Any number of processes
// may read, start runs and post messages at any time. One process at a time executes runs.
//
// People may read the tables: the views perdure_runs, perdure_journal and perdure_inbox show them
// in words.
//
//	sqlite3 runs.db "select seq, kind, name, data from perdure_journal
//	    where workflow_id = 'order-4711'"
//
// DESIGN.md beside this file has the reasons for this design.
package sqlite
