// Package redismemory keeps the states of orchestrators in Redis:
//
//	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
//	memory := redismemory.New[orchestrator.Record](client, redismemory.Options{})
//
// A subject has one key, a hash with its state as JSON and its lock. Each operation is one script,
// which Redis executes as a whole, and the script has one command that writes: it happens or it
// does not. A lock passes by the clock of the server. The clocks of clients are not used.
//
// A state has no expiry, unless Options.TTL is set and its instance has ended. Should another
// instance of the subject begin by then, its first write takes the expiry away before it.
//
// A command is sent once, whatever the client's settings of retries are. A second try of a write
// would find the state of the first one, and report a conflict that was none. A call ends with its
// context, also if the client's ContextTimeoutEnabled is off. Then the command may still have an
// effect, and its goroutine ends by the timeouts of the client.
//
// What the memory promises is what the server keeps:
//
//   - With "appendonly yes" and "appendfsync always", a crash loses nothing that was acknowledged.
//     With other settings it loses the last writes; see [Check].
//   - Replication is asynchronous. A failover to a replica may lose acknowledged writes, with any
//     settings, also in a cluster and with Sentinel.
//   - What is lost so is lost as if it had not been written. No two locks of a subject have the
//     same token even then, as long as the clock of the server, or of the one that takes over,
//     does not go back: a token is not below the time in microseconds.
//   - A clock of the server that is set forward lets locks pass early. Then a late holder writes
//     nothing, because the token has changed or the lock has passed. A clock that is set back
//     makes them pass late.
//   - A policy of eviction for all keys removes states when the memory is full: use noeviction.
//
// It is tested with Redis 7.0, and uses nothing newer than Redis 5. It works with a single server,
// with Sentinel and with a cluster, and asks the primary also if the client reads from replicas. Do
// not use a ring: without one of its servers, a ring looks for a subject on another one.
package redismemory
