package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

// files are what a demo keeps in its directory.
type files struct {
	dir    string
	store  string
	ledger string
	mark   string // says that the others are a demo's, which may be removed
}

// prepare makes the directory ready for a demo. What an earlier one left in it
// is removed; a database that no demo made is not touched.
func prepare(dir string, p Plan) (files, error) {
	f := files{
		dir:    dir,
		store:  filepath.Join(dir, "perdure.db"),
		ledger: filepath.Join(dir, "ledger.jsonl"),
		mark:   filepath.Join(dir, "demo.json"),
	}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return f, f.problem(journal.CodeInvalid, "it is a file, and a directory is needed", nil)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return f, f.problem(journal.CodeUnavailable, "the directory cannot be made", err)
	}
	if err := f.clear(); err != nil {
		return f, err
	}
	mark, err := json.MarshalIndent(p, "", "  ")
	if err == nil {
		err = os.WriteFile(f.mark, append(mark, '\n'), 0o644)
	}
	if err != nil {
		return f, f.problem(journal.CodeUnavailable, "the directory cannot be written", err)
	}
	return f, nil
}

// clear removes what an earlier demo left.
func (f files) clear() error {
	left := []string{f.store, f.store + "-wal", f.store + "-shm", f.store + "-engine", f.ledger}
	if _, err := os.Stat(f.mark); errors.Is(err, fs.ErrNotExist) {
		for _, name := range left {
			if _, err := os.Stat(name); err == nil {
				return f.problem(journal.CodeConflict, filepath.Base(name)+" is there, and no demo made it", nil)
			}
		}
		return nil
	}
	for _, name := range left {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return f.problem(journal.CodeUnavailable, "what an earlier demo left cannot be removed", err)
		}
	}
	return nil
}

func (f files) problem(code journal.Code, message string, err error) error {
	return &perdure.Error{
		Code: code, Op: "demo in " + f.dir, Message: message, Err: err,
		Hint: "name another directory with --dir",
	}
}

// runs gives the status of every run in the store, by workflow ID. Nobody need
// run for that.
func (f files) runs(ctx context.Context) (map[string]journal.Status, error) {
	s, err := sqlite.OpenWith(f.store, sqlite.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	statuses := map[string]journal.Status{}
	for filter := (store.Filter{Limit: store.MaxLimit}); ; {
		heads, next, err := s.Find(ctx, filter)
		if err != nil {
			return nil, fmt.Errorf("list the runs: %w", err)
		}
		for _, h := range heads {
			statuses[h.WorkflowID] = h.Status
		}
		if next == 0 {
			return statuses, nil
		}
		filter.After = next
	}
}

// finished gives the steps of an order that its journal has the result of.
func (f files) finished(ctx context.Context, order string) ([]Action, error) {
	s, err := sqlite.OpenWith(f.store, sqlite.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	heads, _, err := s.Find(ctx, store.Filter{WorkflowID: order})
	if err != nil || len(heads) == 0 {
		return nil, fmt.Errorf("find the run of %s: %w", order, errors.Join(err, store.ErrNotFound))
	}
	entries, err := s.Load(ctx, heads[0].Number, store.Range{})
	if err != nil {
		return nil, fmt.Errorf("read the journal of %s: %w", order, err)
	}
	var done []Action
	for i := range entries {
		if entries[i].Kind.EndsStep() {
			done = append(done, Action(entries[i].Op.Name))
		}
	}
	return done, nil
}
