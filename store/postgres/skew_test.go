package postgres_test

import (
	"context"
	"reflect"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/postgres"
)

// A skewed store is for a node whose clock is behind the clocks of the other nodes. It adds
// the difference to all times that the node passes to the database, and subtracts it from all
// times that it returns.
type skewed struct {
	*postgres.Store
	by time.Duration
}

func (s *skewed) Commit(ctx context.Context, g *store.Group) error {
	return s.commit(ctx, g, s.Store.Commit)
}

func (s *skewed) commit(ctx context.Context, g *store.Group,
	commit func(context.Context, *store.Group) error) error {
	told := shifted(*g, s.by)
	err := commit(ctx, &told)
	told = shifted(told, -s.by)
	for i := range g.Changes {
		c, t := &g.Changes[i], &told.Changes[i]
		c.Verdict, c.Found = t.Verdict, t.Found
		for j := range c.Posts {
			c.Posts[j] = t.Posts[j]
		}
		for j := range c.Else {
			c.Else[j] = t.Else[j]
		}
	}
	return err
}

func (s *skewed) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	out, err := s.Store.Claim(ctx, shifted(c, s.by))
	return shifted(out, -s.by), err
}

func (s *skewed) Load(ctx context.Context, run journal.Number, r store.Range) ([]journal.Entry,
	error) {
	out, err := s.Store.Load(ctx, run, r)
	return shifted(out, -s.by), err
}

func (s *skewed) Find(ctx context.Context, f store.Filter) ([]journal.Head, journal.Cursor, error) {
	f = shifted(f, s.by)
	if !f.After.IsZero() {
		f.After.Created += int64(s.by)
	}
	out, next, err := s.Store.Find(ctx, f)
	if !next.IsZero() {
		next.Created -= int64(s.by)
	}
	return shifted(out, -s.by), next, err
}

func (s *skewed) Purge(ctx context.Context, p store.Purge) (store.Purged, error) {
	return s.Store.Purge(ctx, shifted(p, s.by))
}

func (s *skewed) In(tx any) (store.Transaction, error) {
	t, err := s.Store.In(tx)
	return &skewedTx{t, s}, err
}

type skewedTx struct {
	store.Transaction
	store *skewed
}

func (t *skewedTx) Commit(ctx context.Context, g *store.Group) error {
	return t.store.commit(ctx, g, t.Transaction.Commit)
}

// shifted returns a copy of v in which every time is later, except for zero times.
func shifted[T any](v T, by time.Duration) T {
	shift(reflect.ValueOf(&v).Elem(), by)
	return v
}

func shift(v reflect.Value, by time.Duration) {
	switch v.Kind() {
	case reflect.Struct:
		if t, ok := v.Interface().(time.Time); ok {
			if !t.IsZero() {
				v.Set(reflect.ValueOf(t.Add(by)))
			}
			return
		}
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				shift(f, by)
			}
		}
	case reflect.Interface: // a store.Claim
		if !v.IsNil() && v.Elem().Kind() == reflect.Struct {
			c := reflect.New(v.Elem().Type()).Elem()
			c.Set(v.Elem())
			shift(c, by)
			v.Set(c)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			c := reflect.New(v.Type().Elem())
			c.Elem().Set(v.Elem())
			shift(c.Elem(), by)
			v.Set(c)
		}
	case reflect.Slice:
		if k := v.Type().Elem().Kind(); !v.IsNil() &&
			(k == reflect.Struct || k == reflect.Pointer) {
			c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(c, v)
			for i := range c.Len() {
				shift(c.Index(i), by)
			}
			v.Set(c)
		}
	}
}
