// Package demo shows that runs survive kill -9, and proves it.
//
// Three processes take part. The supervisor ([Run]) has no engine; it reads the
// runs from the database, as the command line does. The worker ([Worker]) has
// an engine on it and executes six workflows: an order, a transfer, an
// approval, labels, an agent and a subscription. The outside world ([World]) is
// what their steps have effects on; it writes down every call that it gets before
// it answers, repeated ones too. At calls that the seed chooses it holds its
// answer: the effect has then begun and the worker has not recorded it, which is
// the worst moment to die. The supervisor kills the worker there and starts
// another one. On PostgreSQL there may be several workers, and some of them it holds
// up instead, until another has done what they had begun.
//
// What is judged in the end ([Judge]) is the ledger of the outside world. The
// store is only asked which runs there are, and what they wait for.
//
// The processes are one program. A child gets its orders as a line of JSON on
// its standard input, tells what happens as lines of JSON on its standard
// output, and ends when its input does, so that none outlives the supervisor.
package demo
