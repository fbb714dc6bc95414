// Package demo shows that runs survive kill -9, and proves it.
//
// Three kinds of processes take part. The supervisor ([Run]) has no engine; it reads the
// runs from the database, as the command line does. The worker ([Worker]) has an engine on
// the database and executes six workflows: an order, a transfer, an approval, a daily report, an
// agent and a subscription. The outside world ([World]) has the effects of their steps. It
// writes down every call before it answers, repeated calls too. For calls that the seed
// chooses it holds its answer: the effect has begun and the worker has not recorded it,
// which is the worst moment to die. The supervisor kills the worker there and starts
// another one. On PostgreSQL there may be several workers. The supervisor pauses some of
// them instead, until another worker has repeated the call.
//
// The checks at the end ([Judge]) use the ledger of the outside world. From the store they
// only take the list of runs, with their statuses and waits.
//
// All processes are one program. A child reads its setup as a line of JSON from its
// standard input and writes events as lines of JSON to its standard output. It ends when
// its input does, so no child outlives the supervisor.
package demo
