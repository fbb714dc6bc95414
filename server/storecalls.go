package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/server/auth"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/remote"
)

// roles has the role that each need of a call to the store takes.
var roles = map[remote.Need]auth.Role{
	remote.NeedRead: auth.Viewer, remote.NeedWrite: auth.Operator,
	remote.NeedAdminister: auth.Admin,
}

// storeCalls serves the store to clients of package [remote], such as the command line. A caller
// who is not an admin gets payloads without the hidden fields.
func (s *Server) storeCalls() {
	options := remote.HandlerOptions{
		Allow: func(r *http.Request, c remote.Call) error {
			who, need := who(r.Context()), roles[c.Need]
			if who.Role < need {
				// Clients are asked for more than they need where they read settings.
				if c.Need == remote.NeedWrite || c.Name == "purge" {
					s.audit(r, route{name: "store-" + c.Name}, who, "", http.StatusForbidden)
				}
				return fmt.Errorf("the role %s is not enough: this needs the role %s", who.Role,
					need)
			}
			return nil
		},
		Wrote: func(r *http.Request, c remote.Call, g *store.Group) {
			for _, what := range written(c, g) {
				s.audit(r, route{name: what.action}, who(r.Context()), what.about,
					http.StatusOK)
			}
		},
		Failed: s.told,
	}
	whole := remote.Handler(s.store, options)
	part := whole
	if len(s.hide) > 0 {
		part = remote.Handler(hiding{s.store, s.hide}, options)
	}
	rt := route{name: "store", need: auth.Viewer, raw: true}
	pattern := http.MethodPost + " " + remote.Path + "{version}/{call}"
	s.table[pattern] = rt
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if who(r.Context()).Role >= auth.Admin {
			whole.ServeHTTP(w, r)
			return
		}
		part.ServeHTTP(w, r)
	})
}

// told returns an error of the store as a client may see it.
func (s *Server) told(r *http.Request, c remote.Call, err error) error {
	var known *journal.Error
	var data *store.DataError
	var corrupt *journal.CorruptError
	if errors.As(err, &known) || errors.As(err, &data) || errors.As(err, &corrupt) ||
		errors.Is(err, store.ErrNotFound) || r.Context().Err() != nil {
		return err
	}
	s.log.Error("perdure: a call of a client has failed", "call", c.Name, "error", err)
	if who(r.Context()).Role >= auth.Admin {
		return err
	}
	return untold{err}
}

// An untold error is one of a store that does not answer, without the text, which has the host and
// the user of the database.
type untold struct{ error }

func (untold) Error() string   { return "the server cannot do this now (" + inLog + ")" }
func (e untold) Unwrap() error { return e.error }

// A writing is one thing that a client has written into the store.
type writing struct{ action, about string }

// written returns the actions of a group for the audit; of a purge, whose group is nil, the purge.
func written(c remote.Call, g *store.Group) (all []writing) {
	if g == nil {
		return []writing{{"store-" + c.Name, ""}}
	}
	for i := range g.Changes {
		ch := &g.Changes[i]
		if ch.Create && ch.Verdict == store.Written {
			all = append(all, writing{"store-start", ch.Head.Workflow + " " + string(ch.Head.ID)})
		}
		for _, p := range slices.Concat(ch.Posts, ch.Else) {
			if p.Verdict != store.Delivered && p.Verdict != store.Unrouted {
				continue
			}
			to := p.WorkflowID
			if to == "" {
				to = string(p.To.ID)
			}
			all = append(all, writing{"store-" + p.Message.Kind.String(),
				to + " " + p.Message.Op.String()})
		}
		for _, set := range ch.Settings {
			all = append(all, writing{"store-set", set.Kind + " " + set.Name})
		}
	}
	return all
}

// hiding is a store as callers see it from whom some fields of payloads are hidden.
type hiding struct {
	store.Store
	hide redactor
}

// Abilities implements [store.Decorator].
func (h hiding) Abilities() store.Abilities {
	a := store.AbilitiesOf(h.Store)
	return store.Abilities{Briefer: a.Briefer, Counter: h, SlotReader: a.SlotReader}
}

// Load implements [store.Store].
func (h hiding) Load(ctx context.Context, run journal.Number, r store.Range) ([]journal.Entry,
	error) {
	entries, err := h.Store.Load(ctx, run, r)
	for i := range entries {
		entries[i] = h.hide.entry(entries[i])
	}
	return entries, err
}

// Find implements [store.Store].
func (h hiding) Find(ctx context.Context, f store.Filter) ([]journal.Head, journal.Cursor, error) {
	if err := h.hide.mayFilter(f.Attributes); err != nil {
		return nil, journal.Cursor{}, err
	}
	return h.Store.Find(ctx, f)
}

// Count implements [store.Counter].
func (h hiding) Count(ctx context.Context, f store.Filter) ([]store.Count, error) {
	if err := h.hide.mayFilter(f.Attributes); err != nil {
		return nil, err
	}
	return store.CountRuns(ctx, h.Store, f)
}

// Commit implements [store.Store]. What a caller has read without some fields must not be written
// as if it were whole.
func (h hiding) Commit(ctx context.Context, g *store.Group) error {
	for i := range g.Changes {
		if hasHidden(&g.Changes[i]) {
			return &store.DataError{Err: errors.New("a payload has " + redacted + " in it: some " +
				"fields are hidden from you, so do this by the API, or as an admin")}
		}
	}
	return h.Store.Commit(ctx, g)
}

// hasHidden reports whether a change has a value that stands for a hidden one.
func hasHidden(c *store.Change) bool {
	is := func(data []byte) bool { return bytes.Contains(data, []byte(`"`+redacted+`"`)) }
	for _, e := range c.Entries {
		if is(e.Data) || e.Detail != nil && (hasText(e.Detail.Headers) ||
			hasText(e.Detail.Attributes)) {
			return true
		}
	}
	for _, p := range slices.Concat(c.Posts, c.Else) {
		if is(p.Message.Data) {
			return true
		}
	}
	return slices.ContainsFunc(c.Settings, func(s store.Setting) bool { return is(s.Value) })
}

func hasText(of map[string]string) bool {
	return slices.Contains(slices.Collect(maps.Values(of)), redacted)
}
