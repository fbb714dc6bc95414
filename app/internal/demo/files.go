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
	"github.com/perdure/perdure/internal/place"
	"github.com/perdure/perdure/journal"
)

// files are the files of a demo in its directory, and its database, wherever that is.
type files struct {
	dir    string
	store  place.Place // only this demo uses it
	ledger string
	mark   string // file with the mark; without it no other file is removed
}

// A mark is the record that a demo made the files beside it, and the databases in it.
type mark struct {
	Plan      Plan     `json:"plan"`
	World     string   `json:"world"`               // address of the outside world, also after its end
	File      string   `json:"file,omitempty"`      // of the database, if it is not in the directory
	Databases []string `json:"databases,omitempty"` // on servers, and not dropped yet
}

// prepare makes the directory ready for a demo, and makes a database. It removes the files
// and the database of an earlier demo. It does not touch a running demo, nor a database
// that no demo made.
func prepare(ctx context.Context, o Options, p Plan) (files, error) {
	f := files{
		dir: o.Dir, store: o.Store,
		ledger: filepath.Join(o.Dir, "ledger.jsonl"),
		mark:   filepath.Join(o.Dir, "demo.json"),
	}
	if f.store.Kind == place.SQLite && f.store.File == "" {
		f.store.File = filepath.Join(o.Dir, "perdure.db")
	}
	if info, err := os.Stat(o.Dir); err == nil && !info.IsDir() {
		return f, f.problem(journal.CodeInvalid, "it is a file, and a directory is needed", nil)
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return f, f.problem(journal.CodeUnavailable, "the directory cannot be made", err)
	}
	if f.atWork(ctx) {
		return f, f.problem(journal.CodeConflict, "another demo is at work in it", nil)
	}
	left, err := f.clear(ctx)
	if err != nil {
		return f, err
	}
	m := mark{Plan: p, Databases: left}
	switch {
	case f.store.Kind == place.Postgres:
		if f.store, err = o.Store.Make(ctx, "perdure_demo_"); err != nil {
			return f, err
		}
		m.Databases = append(m.Databases, f.store.Database())
	case o.Store.File != "":
		m.File = f.store.File
	}
	return f, f.sign(m)
}

// listens records the address of the outside world in the mark.
func (f files) listens(address string) error {
	m, _, err := f.marked()
	if err != nil {
		return err
	}
	m.World = address
	return f.sign(m)
}

// marked returns the mark, and reports whether it is there.
func (f files) marked() (m mark, there bool, err error) {
	data, err := os.ReadFile(f.mark)
	if errors.Is(err, fs.ErrNotExist) {
		return m, false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err != nil {
		err = f.problem(journal.CodeUnavailable, "what an earlier demo left cannot be read", err)
	}
	return m, true, err
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

// atWork reports whether a demo runs in this directory: whether the outside world of the
// mark answers and writes this ledger.
func (f files) atWork(ctx context.Context) bool {
	m, _, err := f.marked()
	if err != nil || m.World == "" {
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

// clear removes the files and databases of an earlier demo. It returns the databases that
// it could not drop because this demo uses no server.
func (f files) clear(ctx context.Context) (left []string, err error) {
	m, there, err := f.marked()
	if err != nil {
		return nil, err
	}
	own := filepath.Join(f.dir, "perdure.db")
	ours := map[string]bool{f.ledger: there, own: there, m.File: m.File != ""}
	candidates := []string{f.ledger, own}
	if f.store.Kind == place.SQLite && f.store.File != own {
		candidates = append(candidates, f.store.File)
	}
	for _, name := range candidates {
		if _, err := os.Stat(name); err == nil && !ours[name] {
			return nil, f.problem(journal.CodeConflict, filepath.Base(name)+
				" is there, and no demo made it", nil)
		}
	}
	for _, name := range append(candidates, m.File) {
		for _, part := range []string{"", "-wal", "-shm", "-engine"} {
			if name == "" || !ours[name] {
				continue
			}
			if err := os.Remove(name + part); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, f.problem(journal.CodeUnavailable,
					"what an earlier demo left cannot be removed", err)
			}
		}
	}
	if f.store.Kind != place.Postgres {
		return m.Databases, nil
	}
	for _, name := range m.Databases {
		if err := f.store.Drop(ctx, name); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (f files) problem(code journal.Code, message string, err error) error {
	return &perdure.Error{
		Code: code, Op: "demo in " + f.dir, Message: message, Err: err,
		Hint: "name another directory with --dir",
	}
}
