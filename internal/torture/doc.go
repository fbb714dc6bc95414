//go:build unix

// Command torture runs random programs against the engine while everything around it fails, and
// judges the result.
//
//	go run ./internal/torture --store sqlite:/tmp/t.db --minutes 30 --seed 1
//	go run ./internal/torture --store postgres://user@host/db --nodes 3 --minutes 30 --seed 2
//	go run ./internal/torture --store postgres --nodes 3 --minutes 2
//
// Package program generates the programs from the seed and foresees the required result of each.
// They run in processes of their own, the nodes, with package play. The outside world is another
// process, which records every call. Meanwhile nodes are killed, stopped and continued, connections
// are held and lost, the server dies, the disk is full and the cores are busy; package actor makes
// the calls of clients and operators. Package judge returns the errors at the end. A program that
// went wrong is shrunk as long as it still goes wrong in three of five runs, and printed.
//
// If the store is named just postgres, torture starts a server of its own, and disturbs that too.
// It exits with 0 if nothing is wrong and every kind of fault took effect.
package main
