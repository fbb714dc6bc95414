package kill

import (
	"context"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/sqlite"
)

// A Plan has what the workers of a program and its judge share.
type Plan struct {
	Dir   string // for files
	Count int    // pieces of work
	Seed  uint64
}

// Main is the main function of a program whose worker is killed again and again. work does the work
// of the plan, or goes on with it, and prints a line for each piece that is done, which may come
// again. When all is done, judge prints what has come of it, and returns an error if that is wrong.
func Main(count int, work func(context.Context, Plan) error,
	judge func(context.Context, *perdure.Client, Plan) error) {
	var p Plan
	flag.IntVar(&p.Count, "count", count, "pieces of work")
	flag.Uint64Var(&p.Seed, "seed", 1, "of the work and the kills")
	flag.StringVar(&p.Dir, "worker", "", "run the worker, in this directory")
	kills := flag.Int("kills", 10, "number of kills")
	flag.Parse()
	do := work
	if p.Dir == "" {
		do = func(ctx context.Context, p Plan) error { return p.supervise(ctx, *kills, judge) }
	}
	if err := do(context.Background(), p); err != nil {
		log.Fatalln(err)
	}
}

// supervise runs one worker after the other, and then the judge.
func (p Plan) supervise(ctx context.Context, kills int,
	judge func(context.Context, *perdure.Client, Plan) error) error {
	var err error
	if p.Dir, err = os.MkdirTemp("", "killed"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(p.Dir) }()
	random, after := rand.New(rand.NewPCG(p.Seed, 0)), make([]int, kills)
	for i := range after {
		after[i] = random.IntN(p.Count)
	}
	slices.Sort(after)
	done := map[string]bool{}
	err = Again([]string{
		"-worker", p.Dir, "-count", fmt.Sprint(p.Count), "-seed", fmt.Sprint(p.Seed),
	}, after, p.Count, func(line string) int {
		done[line] = true
		return len(done)
	})
	if err != nil {
		return err
	}
	store, err := p.store()
	if err != nil {
		return err
	}
	client, err := perdure.NewClient(ctx, store)
	if err != nil {
		return err
	}
	fmt.Printf("%d runs have ended, over %d kills\n", p.Count, kills)
	return judge(ctx, client, p)
}

func (p Plan) store() (*sqlite.Store, error) {
	return sqlite.Open(filepath.Join(p.Dir, "runs.db"))
}

// Engine returns an engine that runs, on the store of the plan.
func (p Plan) Engine(ctx context.Context, o perdure.Options, w ...perdure.Definition) (
	*perdure.Engine, error) {
	store, err := p.store()
	if err != nil {
		return nil, err
	}
	o.Logger = slog.New(slog.DiscardHandler) // each run that fails would be a warning
	engine, err := perdure.New(store, o)
	if err == nil {
		err = engine.Register(w...)
	}
	if err != nil {
		return nil, err
	}
	go func() { log.Fatalln(engine.Run(ctx)) }()
	return engine, nil
}
