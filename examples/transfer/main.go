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
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/examples/internal/kill"
	"github.com/perdure/perdure/examples/transfer/bank"
	"github.com/perdure/perdure/examples/transfer/money"
	"github.com/perdure/perdure/store/sqlite"
)

var (
	transfers = flag.Int("transfers", 2000, "number of transfers")
	kills     = flag.Int("kills", 20, "number of kills")
	seed      = flag.Uint64("seed", 1, "of the transfers and the kills")
	worker    = flag.String("worker", "", "run the engine, in this directory")
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

// supervise runs one worker after the other. It compares the sums before and after.
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
	err = kill.Again([]string{
		"-worker", dir, "-transfers", fmt.Sprint(*transfers), "-seed", fmt.Sprint(*seed),
	}, after, *transfers, func(line string) int {
		if id, status, _ := strings.Cut(line, " "); !ended[id] {
			ended[id] = true
			counts[status]++
		}
		return len(ended)
	})
	sum, held, e := b.Sum()
	fmt.Printf("%d kills, transfers %v\n", *kills, counts)
	fmt.Printf("after:  %d accounts have %d cents, %d set aside\n", bank.Accounts, sum, held)
	if sum != before || held != 0 || counts["CONFIRMED"]+counts["CANCELED"] != *transfers {
		e = errors.Join(e, errors.New("money is lost or held, or a transfer has another end"))
	}
	return errors.Join(err, e)
}

// work is the worker: it starts every transfer, or finds its run, and prints how it ended.
func work() error {
	b, err := bank.Open(*worker)
	if err != nil {
		return err
	}
	store, err := sqlite.Open(filepath.Join(*worker, "runs.db"))
	if err != nil {
		return err
	}
	// Each refused transfer would be a warning.
	engine, err := perdure.New(store, perdure.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	move := money.Move(b.Do)
	if err := engine.Register(move); err != nil {
		return err
	}
	go func() { log.Fatalln(engine.Run(context.Background())) }()
	random, slots := rand.New(rand.NewPCG(*seed, 1)), make(chan struct{}, 200)
	var all sync.WaitGroup
	for i := range *transfers {
		t := money.Transfer{
			From:  fmt.Sprint(random.IntN(bank.Accounts)),
			To:    fmt.Sprint(random.IntN(bank.Accounts + 2)), // two of these do not exist
			Cents: random.Int64N(50_000),
		}
		slots <- struct{}{}
		all.Go(func() {
			r, err := move.Execute(context.Background(), engine, t, perdure.ID(fmt.Sprint("t-", i)))
			if err != nil {
				log.Fatalln(err)
			}
			fmt.Println(r.WorkflowID, r.Status)
			<-slots
		})
	}
	all.Wait()
	return nil
}
