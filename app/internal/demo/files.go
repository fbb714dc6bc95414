package demo

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
)

// files are what a demo keeps in its directory.
type files struct {
	dir    string
	store  string
	ledger string
	mark   string // has a mark: the others may be removed
}

// A mark says that the files beside it are a demo's.
type mark struct {
	Plan  Plan   `json:"plan"`
	World string `json:"world"` // where the outside world listens, or did
}

// prepare makes the directory ready for a demo. What an earlier one left in it
// is removed; a demo that is at work there, and a database that no demo made,
// are not touched.
func prepare(ctx context.Context, dir string, p Plan) (files, error) {
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
	if f.atWork(ctx) {
		return f, f.problem(journal.CodeConflict, "another demo is at work in it", nil)
	}
	if err := f.clear(); err != nil {
		return f, err
	}
	return f, f.sign(mark{Plan: p})
}

func (f files) sign(m mark) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err == nil {
		err = os.WriteFile(f.mark, append(data, '\n'), 0o644)
	}
	if err != nil {
		return f.problem(journal.CodeUnavailable, "the directory cannot be written", err)
	}
	return nil
}

// atWork asks the outside world of the demo that was here last, if it still
// answers, whether it writes this ledger.
func (f files) atWork(ctx context.Context) bool {
	var m mark
	data, err := os.ReadFile(f.mark)
	if err != nil || json.Unmarshal(data, &m) != nil || m.World == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.World+ledgerPath, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	name, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return false
	}
	theirs, err := os.Stat(string(name))
	if err != nil {
		return false
	}
	ours, err := os.Stat(f.ledger)
	return err == nil && os.SameFile(theirs, ours)
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
