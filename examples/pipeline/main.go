// Command pipeline makes a report of three files by a graph: it reads them side by side,
// joins them, and writes the report. Where a file has not been delivered yet, the graph
// fails, a dead letter waits for an operator, and a retry does what is left.
package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/store/sqlite"
)

// Units are how many there are of each item.
type Units map[string]int

// report is the graph. Its input is the day.
func report(dir string) *dag.Graph[string] {
	g := dag.New[string]("daily-report", perdure.Retry{Attempts: 2, First: 100 * time.Millisecond})
	var sources []dag.Dependency
	for _, name := range []string{"sales", "returns", "stock"} {
		sources = append(sources, dag.Add(g, "read-"+name, read(dir, name)))
	}
	joined := dag.Add(g, "join", join).After(sources...)
	dag.Add(g, "write", func(_ context.Context, in written) (string, error) {
		fmt.Println("writing the report")
		return in.Day + ".json", replace(filepath.Join(dir, in.Day+".json"), in.Left)
	}).After(joined)
	return g.Output(joined)
}

// read reads a file of lines with an item and how many there are.
func read(dir, name string) func(context.Context, string) (Units, error) {
	return func(_ context.Context, day string) (Units, error) {
		f, err := os.Open(filepath.Join(dir, name+"-"+day+".csv"))
		if err != nil {
			return nil, err
		}
		defer f.Close()
		fmt.Println("reading", name)
		lines, err := csv.NewReader(f).ReadAll()
		all := Units{}
		for _, line := range lines {
			n, e := strconv.Atoi(line[len(line)-1])
			if e != nil {
				return nil, perdure.Permanent(e) // to read it again would not help
			}
			all[line[0]] += n
		}
		return all, err
	}
}

// joining is what join is given: results of the steps before it.
type joining struct {
	Sales   Units `perdure:"step=read-sales,required"`
	Returns Units `perdure:"step=read-returns,required"`
	Stock   Units `perdure:"step=read-stock,required"`
}

func join(_ context.Context, in joining) (Units, error) {
	left := Units{}
	for item, n := range in.Stock {
		left[item] = n - in.Sales[item] + in.Returns[item]
	}
	return left, nil
}

// written is what the last step is given.
type written struct {
	Day  string `perdure:"input"`
	Left Units  `perdure:"step=join,required"`
}

// replace writes a file at once: who reads it meanwhile has the old one or the new one.
func replace(name string, v any) error {
	data, err := json.Marshal(v)
	if err == nil {
		err = os.WriteFile(name+".new", data, 0o644)
	}
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	return err
}

func main() {
	dir := flag.String("dir", ".", "where the files are, the report will be, and runs.db is")
	day := flag.String("day", "2026-01-31", "which one; with -retry the report of this day goes on")
	again := flag.Bool("retry", false, "retry what has failed")
	flag.Parse()
	if err := run(*dir, *day, *again); err != nil {
		log.Fatalln(err)
	}
}

func run(dir, day string, again bool) error {
	store, err := sqlite.Open(filepath.Join(dir, "runs.db"))
	if err != nil {
		return err
	}
	engine, err := perdure.New(store, perdure.Options{})
	if err != nil {
		return err
	}
	daily := report(dir)
	if err := engine.Register(daily); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = engine.Run(ctx) })
	defer func() { stop(); running.Wait() }()
	if again {
		if err := retry(ctx, engine, day); err != nil {
			return err
		}
	}
	result, err := daily.Execute(ctx, engine, day, perdure.ID(day)) // or finds the run of that day
	if err != nil {
		return err
	}
	for _, s := range result.Steps {
		fmt.Println(s.ID, s.Status, string(s.Result))
	}
	return result.Err
}

// retry has the run of a day go on from the steps that dead letters are about.
func retry(ctx context.Context, engine *perdure.Engine, day string) error {
	letters, _, err := admin.New(engine).DeadLetters(ctx, admin.DeadLetterQuery{WorkflowID: day})
	if err == nil && len(letters) > 0 { // they are about one run
		fmt.Println("dead letter:", letters[0].Step, "failed:", letters[0].Error)
		_, err = admin.New(engine).RetryDeadLetter(ctx, letters[0].ID)
	}
	return err
}
