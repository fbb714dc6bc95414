// Package remote is a store over HTTP, for programs that execute nothing. A server has the database
// and serves its store with [Handler]. A client opens the address of the server with [Open] and
// uses the result as any other store: it starts runs, sends messages, and reads.
//
//	http.Handle(remote.Path, remote.Handler(db, remote.HandlerOptions{Allow: allow})) // a server
//
//	db, err := remote.Open(ctx, "https://perdure.internal", remote.Options{Token: token})
//	client, err := perdure.NewClient(ctx, db)
//
// # What it promises
//
// A [Store.Commit] that returns nil is durable in the database of the server, and every change and
// post has its verdict. After an error of the connection the outcome is unknown, and the same group
// is sent again with Again set, as package store demands. Clients of package perdure do that: a
// start, a signal or a setting is there once, however often the connection fails. The errors of
// package store cross the wire with their identity, for errors.Is and errors.As.
//
// A [journal.Error] is an answer that another try does not change: the server does not know the
// token, or does not allow the call (code unauthorised), the request is too large (too_large) or is
// not valid (invalid), or no store is there that speaks this version of the protocol (unavailable).
//
// # What a client may do
//
// What an engine does is not served: to join, to claim runs, to write journals of runs that are
// there, to spill payloads. Engines open the database itself. A [Store] is no [store.Transactor]
// either, as the transactions of the application are elsewhere, and no [store.Watcher], as only
// engines watch.
//
// Each call needs a right, and HandlerOptions.Allow decides who has it:
//
//   - [NeedRead]: heads, journals, inboxes, slots, and what Info says. Payloads are among these.
//   - [NeedWrite]: to start runs, send messages, and change settings. Who may write may send every
//     message, also the orders of operators: package remote knows no other roles.
//   - [NeedAdminister]: to purge; to change settings that hold secrets ([store.Setting.IsSecret]);
//     and to read their values. To others, Info says that they are set, and the values are empty.
//
// # The protocol
//
// A call is a POST of a JSON object to Path + "v1/" + its name. An answer is a JSON object with the
// members Value and Err. Field names are those of package store, and zero fields are left out. So a
// field that is new in a request is refused only by a server that would have to heed it. A request
// is read strictly: unknown and repeated fields, other spellings of their names, invalid UTF-8 and
// anything after the object are refused.
package remote
