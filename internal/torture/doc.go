//go:build unix

// Command torture runs random programs against the engine while everything around it
// fails, and judges what came of it.
//
//	go run ./internal/torture --store sqlite:/tmp/t.db --minutes 30 --seed 1
//	go run ./internal/torture --store postgres://user@host/db --nodes 3 --minutes 30 --seed 2
//	go run ./internal/torture --store postgres --nodes 3 --minutes 2
//
// The programs are made from the seed by package program, which foresees what each of
// them must come to. They run in processes of their own, the nodes, which package play
// serves; the outside world is another process, that writes down every call. Meanwhile
// nodes are killed, stopped and continued, connections are held and lost, the server
// dies, the disk is full and the cores are busy; package desk deals with the programs as
// the outside does. Package judge says what is wrong in the end. A program that went
// wrong is shrunk as long as it still goes wrong in three of five runs, and printed.
//
// With the store named just postgres it starts a server of its own, and tortures that too.
// It exits with 0 if nothing is wrong and every kind of fault took effect.
package main
