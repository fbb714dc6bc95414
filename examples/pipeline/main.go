// Command pipeline makes a report of three files by a graph: it reads them side by side,
// joins them, and writes the report. While a file is missing, the graph fails, and a dead
// letter waits for an operator. A retry runs the failed step and the steps after it.
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

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/examples/pipeline/daily"
	"github.com/perdure/perdure/store/sqlite"
)

// A folder has the files of all days.
type folder string

// Read reads a file whose lines have an item and a number of pieces.
func (dir folder) Read(_ context.Context, name, day string) (daily.Units, error) {
	f, err := os.Open(filepath.Join(string(dir), name+"-"+day+".csv"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fmt.Println("reading", name)
	lines, err := csv.NewReader(f).ReadAll()
	all := daily.Units{}
	for _, line := range lines {
		n, e := strconv.Atoi(line[len(line)-1])
		if e != nil {
			return nil, perdure.Permanent(e) // a second attempt would not help
		}
		all[line[0]] += n
	}
	return all, err
}

// Write replaces the report of a day at once: readers see the old one or the new one.
func (dir folder) Write(_ context.Context, day string, left daily.Units) error {
	fmt.Println("writing the report")
	name := filepath.Join(string(dir), day+".json")
	data, err := json.Marshal(left)
	if err == nil {
		err = os.WriteFile(name+".new", data, 0o644)
	}
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	return err
}

func main() {
	dir := flag.String("dir", ".", "folder of the files, the report and runs.db")
	day := flag.String("day", "2026-01-31", "day of the report")
	again := flag.Bool("retry", false, "retry the failed report of that day")
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
	report := daily.Report(folder(dir))
	if err := engine.Register(report); err != nil {
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
	result, err := report.Execute(ctx, engine, day, perdure.ID(day)) // or finds the run of that day
	if err != nil {
		return err
	}
	for _, s := range result.Steps {
		fmt.Println(s.ID, s.Status, string(s.Result))
	}
	return result.Err
}

// retry continues the failed run of a day at the failed step.
func retry(ctx context.Context, engine *perdure.Engine, day string) error {
	letters, _, err := admin.New(engine).DeadLetters(ctx, admin.DeadLetterQuery{WorkflowID: day})
	if err == nil && len(letters) > 0 { // all are of one run
		fmt.Println("dead letter:", letters[0].Step, "failed:", letters[0].Error)
		_, err = admin.New(engine).RetryDeadLetter(ctx, letters[0].ID)
	}
	return err
}
