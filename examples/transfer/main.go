// Command transfer moves money between the accounts of a bank by TCC, 200 transfers at a
// time, while its engine is killed again and again. In the end the bank has as much as
// in the beginning, and nothing is set aside.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/examples/internal/kill"
	"github.com/perdure/perdure/examples/transfer/bank"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tcc"
)

// transfer is the TCC: one account sets the money aside, the other says that it would
// take it; then both do, or neither.
func transfer(b *bank.Bank) *tcc.TCC[bank.Transfer] {
	t := tcc.New[bank.Transfer]("transfer", perdure.Timeout(time.Hour))
	tcc.Add(t, "debit", b.Try(bank.Hold, bank.From)).Confirm(b.Confirm(bank.Take, bank.From)).Cancel(b.Cancel(bank.Release, bank.Book, bank.From))
	tcc.Add(t, "credit", b.Try(bank.Announce, bank.To)).Confirm(b.Confirm(bank.Book, bank.To)).Cancel(b.Cancel(bank.Announce, bank.Unbook, bank.To))
	return t
}

var (
	transfers = flag.Int("transfers", 2000, "how many transfers")
	kills     = flag.Int("kills", 20, "how often the engine is killed")
	seed      = flag.Uint64("seed", 1, "of what is transferred, and when the engine is killed")
	worker    = flag.String("worker", "", "be the engine, in this directory")
)

func main() {
	flag.Parse()
	do := supervise
	if *worker != "" {
		do = work
	}
	if err := do(); err != nil {
		log.Fatalln(err)
	}
}

// supervise has one worker after the other do the transfers, and compares.
func supervise() error {
	dir, err := os.MkdirTemp("", "transfer")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	b, err := bank.Open(dir)
	if err != nil {
		return err
	}
	before, _, err := b.Sum()
	if err != nil {
		return err
	}
	fmt.Printf("before: %d accounts have %d cents\n", bank.Accounts, before)
	random, after := rand.New(rand.NewPCG(*seed, 0)), make([]int, *kills)
	for i := range after {
		after[i] = random.IntN(*transfers)
	}
	slices.Sort(after)
	ended, counts := map[string]bool{}, map[string]int{}
	args := []string{"-worker", dir, "-transfers", fmt.Sprint(*transfers), "-seed", fmt.Sprint(*seed)}
	err = kill.Again(args, after, *transfers, func(line string) int {
		if id, status, _ := strings.Cut(line, " "); !ended[id] {
			ended[id] = true
			counts[status]++
		}
		return len(ended)
	})
	sum, held, e := b.Sum()
	fmt.Printf("%d kills, transfers %v\nafter:  %d accounts have %d cents, %d set aside\n", *kills, counts, bank.Accounts, sum, held)
	if sum != before || held != 0 || counts["CONFIRMED"]+counts["CANCELED"] != *transfers {
		e = errors.Join(e, errors.New("that is not as it should be"))
	}
	return errors.Join(err, e)
}

// work is the worker: it starts every transfer, or finds it, and tells how each ends.
func work() error {
	b, err := bank.Open(*worker)
	if err != nil {
		return err
	}
	store, err := sqlite.Open(filepath.Join(*worker, "runs.db"))
	if err != nil {
		return err
	}
	engine, err := perdure.New(store, perdure.Options{})
	if err != nil {
		return err
	}
	move := transfer(b)
	if err := engine.Register(move); err != nil {
		return err
	}
	go func() { log.Fatalln(engine.Run(context.Background())) }()
	random, slots := rand.New(rand.NewPCG(*seed, 1)), make(chan struct{}, 200)
	var all sync.WaitGroup
	for i := range *transfers {
		t := bank.Transfer{From: random.IntN(bank.Accounts), To: random.IntN(bank.Accounts + 2), Cents: random.Int64N(50_000)} // two are closed
		slots <- struct{}{}
		all.Go(func() {
			result, err := move.Execute(context.Background(), engine, t, perdure.ID(fmt.Sprint("t-", i)))
			if err != nil {
				log.Fatalln(err)
			}
			fmt.Println(result.WorkflowID, result.Status)
			<-slots
		})
	}
	all.Wait()
	return nil
}
