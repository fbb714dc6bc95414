package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A call is one that the handler serves.
type call struct {
	need Need // the least that it needs
	// do carries out the call with the JSON of its question, and returns the answer.
	do func(s *session, question []byte) (any, error)
}

// An answer is the value that a call returns, and its error.
type answer[A any] struct {
	Value A
	Err   error
}

// A session is one request to the handler.
type session struct {
	*handler
	r    *http.Request
	call Call
}

// maxRoom limits the memory that the elements of a question's lists take.
const maxRoom = 64 << 20

func calling[Q, A any](need Need, do func(context.Context, *session, *Q) (A, error)) call {
	return call{need, func(s *session, question []byte) (any, error) {
		q := new(Q)
		if err := decode(question, q, maxRoom); err != nil {
			return nil, invalid(s.call.Name, err)
		}
		a, err := do(s.r.Context(), s, q)
		var refused *refusal
		if err != nil && s.o.Failed != nil && !errors.As(err, &refused) {
			err = s.o.Failed(s.r, s.call, err)
		}
		return answer[A]{a, err}, err
	}}
}

// The questions and answers that are no structs of package store.
type (
	nothing struct{}
	loading struct {
		Run   journal.Number
		Range store.Range
	}
	found struct {
		Heads []journal.Head
		Next  journal.Cursor
	}
)

// calls returns what a client without an engine may do.
func calls() map[string]call {
	return map[string]call{
		"commit":  calling(NeedWrite, commit),
		"reserve": calling(NeedWrite, reserve),
		"load":    calling(NeedRead, load),
		"find":    calling(NeedRead, find),
		"count":   calling(NeedRead, count),
		"purge":   calling(NeedAdminister, purge),
		"info":    calling(NeedRead, info),
		"brief":   calling(NeedRead, brief),
		"slots":   calling(NeedRead, slots),
	}
}

// engineOnly returns the error for a call that only an engine makes.
func engineOnly(name string) error {
	return &refusal{http.StatusForbidden, &journal.Error{
		Code: journal.CodeMisuse, Op: name,
		Message: "only an engine does that, and a server serves no engines",
		Hint:    "an engine opens the database itself",
	}}
}

func commit(ctx context.Context, s *session, g *store.Group) (*store.Group, error) {
	if g.Engine != 0 {
		return nil, engineOnly("commit")
	}
	if writesSecret(g) {
		if err := s.allow(NeedAdminister); err != nil {
			return nil, err
		}
	}
	return s.commit(ctx, g)
}

// commit commits a group, and tells that it did.
func (s *session) commit(ctx context.Context, g *store.Group) (*store.Group, error) {
	if err := s.store.Commit(ctx, g); err != nil {
		return nil, err
	}
	s.wrote(g)
	return verdicts(g), nil
}

func writesSecret(g *store.Group) bool {
	return slices.ContainsFunc(g.Changes, func(c store.Change) bool {
		return slices.ContainsFunc(c.Settings, store.Setting.IsSecret)
	})
}

// verdicts returns a committed group without what its sender has and Commit does not set.
func verdicts(g *store.Group) *store.Group {
	out := *g
	out.Changes = slices.Clone(g.Changes)
	for i := range out.Changes {
		c := &out.Changes[i]
		c.Head, c.Entries, c.Settings = nil, nil, nil
		c.Posts, c.Else = slices.Clone(c.Posts), slices.Clone(c.Else)
		for _, posts := range [][]store.Post{c.Posts, c.Else} {
			for j := range posts {
				posts[j].Message = journal.Entry{}
			}
		}
	}
	return &out
}

// judge sets in a group, in place, what Commit has set in it at the server.
func judge(g, by *store.Group) error {
	if len(by.Changes) != len(g.Changes) {
		return fmt.Errorf("%d changes have %d verdicts", len(g.Changes), len(by.Changes))
	}
	for i := range by.Changes {
		c, sent := &by.Changes[i], &g.Changes[i]
		if len(c.Posts) != len(sent.Posts) || len(c.Else) != len(sent.Else) ||
			len(c.Asks) != len(sent.Asks) {
			return fmt.Errorf("change %d does not have all verdicts", i)
		}
		c.Head, c.Entries, c.Settings = sent.Head, sent.Entries, sent.Settings
		c.Posts, c.Else = judged(sent.Posts, c.Posts), judged(sent.Else, c.Else)
		copy(sent.Asks, c.Asks)
		c.Asks = sent.Asks
		*sent = *c
	}
	g.Grants = by.Grants
	return nil
}

func judged(posts, by []store.Post) []store.Post {
	for i := range posts {
		by[i].Message = posts[i].Message
		posts[i] = by[i]
	}
	return posts
}

func reserve(ctx context.Context, s *session, _ *nothing) (store.Claimed, error) {
	return s.store.Claim(ctx, store.ReserveID{})
}

func load(ctx context.Context, s *session, q *loading) ([]journal.Entry, error) {
	return s.store.Load(ctx, q.Run, q.Range)
}

func find(ctx context.Context, s *session, f *store.Filter) (found, error) {
	heads, next, err := s.store.Find(ctx, *f)
	return found{heads, next}, err
}

func count(ctx context.Context, s *session, f *store.Filter) ([]store.Count, error) {
	return store.CountRuns(ctx, s.store, *f)
}

func purge(ctx context.Context, s *session, p *store.Purge) (store.Purged, error) {
	if p.Engine != 0 {
		return store.Purged{}, engineOnly("purge")
	}
	purged, err := s.store.Purge(ctx, *p)
	if err == nil {
		s.wrote(nil)
	}
	return purged, err
}

func info(ctx context.Context, s *session, _ *nothing) (store.Info, error) {
	info, err := s.store.Info(ctx)
	return s.without(info), err
}

func brief(ctx context.Context, s *session, _ *nothing) (store.Info, error) {
	info, err := store.Brief(ctx, s.store)
	return s.without(info), err
}

func slots(ctx context.Context, s *session, q *store.SlotQuery) ([]store.Slot, error) {
	reader, ok := s.store.(store.SlotReader)
	if !ok {
		return nil, nil
	}
	return reader.Slots(ctx, *q)
}

// without returns the description without the secrets that the caller may not read.
func (s *session) without(info store.Info) store.Info {
	if !slices.ContainsFunc(info.Settings, store.Setting.IsSecret) ||
		s.allow(NeedAdminister) == nil {
		return info
	}
	info.Settings = slices.Clone(info.Settings)
	for i := range info.Settings {
		if x := &info.Settings[i]; x.IsSecret() && x.Value != nil {
			x.Value = []byte{}
		}
	}
	return info
}
