// Package natsmemory keeps the states of orchestrators in a key-value bucket of NATS JetStream. It
// needs a server of 2.9.10 or later.
//
// All that is kept of a subject is one value under one key: the state, its version and the lock.
// Each change of it demands the revision that was read. So one check of the server decides over
// the lock, the fence and the comparison of versions. Nothing is ever deleted.
//
// # Locks and clocks
//
// No clock of a client counts. The server stamps each message with its revision and its time. The
// revision that takes a lock is the lock's token, and its time plus the time to live is the lock's
// end. To learn the time of the server, a call writes one message under the key "clock" and reads
// its stamp. Each Write and Unlock does so, and a Lock of a lock that somebody holds.
//
// A Write is judged by the time at which it asks. One that is on its way when its lock passes is
// stored if nobody has taken the lock since. It never replaces anything of a later holder.
//
// In a cluster the leader of the bucket stamps the messages. When the leader changes, the clocks of
// the two must agree within much less than the time to live. Otherwise a lock passes too early or
// too late by the difference, as it does when the clock of one server jumps. A lock that passes too
// early still fences its holder.
//
// # What is durable
//
// A change that was acknowledged is in a file of the server, and with Replicas of 3 in files of two
// servers or more. It survives that the process of the server is killed. JetStream acknowledges
// before the file is synced to the disk, which happens every two minutes: with one replica a loss
// of power may take the last changes back, with their tokens and versions. Use three replicas on
// machines that do not fail together, or the server's setting sync_interval.
//
// Reads are answered by the leader of the bucket alone, so they see each write before them. A
// leader that is cut off from the others may answer with an old state until it learns of that; a
// change that is based on it is refused.
//
// A client of NATS that has lost its connection keeps requests and sends them when it is connected
// again, also those of calls whose context has ended. Connect with nats.ReconnectBufSize(-1) if
// such calls should fail at once and without effect.
//
// # Limits
//
// Lock and Unlock send the state too, so states should be small. A state must fit into the
// max_payload of the server, which is 1 MB unless it is set. A bucket must not be filled from
// another one while it is in use, since revisions would differ.
package natsmemory
