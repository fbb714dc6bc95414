// Package sqlmemory has a memory of orchestrators in the application's own database, which is
// PostgreSQL or SQLite by database/sql, with any driver that takes $1 for the first argument:
//
//	memory, err := sqlmemory.Open[Order](ctx, db, sqlmemory.PostgreSQL)
//
// All subjects are in one table, [DDL], with a row for each. Each call is one statement, so nothing
// is left half done, and a process that dies in a call keeps no row locked. A row stays when its
// subject is not used any more, because it has the last token. Delete it only if no process uses
// the subject.
//
// # What is durable
//
// What a call has answered stays if processes are killed. If the machine may lose its power, it
// depends on the settings of the application:
//
//   - SQLite: synchronous is FULL or EXTRA. With NORMAL and a write-ahead log, a power cut loses
//     the last writes.
//   - PostgreSQL: synchronous_commit is on, and so is fsync. With a failover, the new primary
//     server must have what the old one has acknowledged: name it in synchronous_standby_names.
//
// With less, a power cut may also take back the last locks, so that a token is given again. Then
// two holders have one token. db must not send reads to a replica.
//
// # Time
//
// Locks end by the clock of the database, at the millisecond on SQLite. The clocks of processes
// do not matter. If the database's clock jumps, locks pass too early or too late. Even then no
// change is lost: another holder has another token, and every write compares tokens and versions.
//
// # SQLite
//
// The file is on one machine, and SQLite is 3.42 or newer. Only one process writes at a time. The
// others wait for the busy_timeout of their connections, and then their calls fail with
// SQLITE_BUSY. Without a busy_timeout they fail at once. So set it, to five seconds for example,
// and journal_mode to WAL, so that nobody waits for readers. With modernc.org/sqlite that is
//
//	file:app.db?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)
//
// # PostgreSQL
//
// The names of a subject and its parent have together at most 2,600 bytes. At the isolation levels
// REPEATABLE READ and SERIALIZABLE, calls also fail with SQLSTATE 40001.
package sqlmemory
