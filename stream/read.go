package stream

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/payload"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Chunk is a chunk of a stream, or, if Void is set, the end of the validity of a part.
type Chunk[T any] struct {
	Offset int64 // its place in the stream: above those of the chunks before it
	// Part is the offset of the first chunk that the same attempt of the same step has put in.
	Part    int64
	Void    bool // what was read of Part does not count any more; there is no value
	Attempt int  // of the step; 0 if Void is set
	At      time.Time
	Value   T
}

// A Page is a part of a stream, as [Stream.Read] returns it.
type Page[T any] struct {
	RunID  string // the run that the stream belongs to
	Chunks []Chunk[T]
	Next   int64 // the offset after which the next page begins
	Ended  bool  // the run has ended, and there is nothing after this page
}

// pageSize is the number of entries that are read at once.
const pageSize = 500

// Read returns the chunks of a run's stream after an offset; 0 begins at the beginning. The id is a
// run ID, or a workflow ID, which stands for its open run or else its newest one: an offset is
// valid for one run, so go on with the [Page.RunID]. A limit above 0 is the number of chunks that
// it looks at, so a page may have fewer. Without one, Read reads to the end: from offset 0 on, that
// is exactly what counts now. A stream that nobody has put anything into is empty.
//
// The errors have the codes not_found, invalid for a name that no stream can have, decode if a
// chunk is no T, misuse with the context of workflow code, and unavailable.
func (s Stream[T]) Read(ctx context.Context, c perdure.Caller, id string, after int64, limit int) (
	Page[T], error) {
	r, err := s.reader(ctx, c, id)
	if err != nil {
		return Page[T]{}, err
	}
	return r.read(ctx, after, limit)
}

// Follow reads the chunks of a run's stream after an offset, and those that come, until the run has
// ended or ctx ends. An error is the last element; that of a ctx that ends has the code timed_out.
// It resolves the id once, as [Stream.Read] does. In the process of the engine that has the run, it
// hears of chunks at once, elsewhere within a second. It executes nothing, and may be called again
// with the offset of the last chunk that was dealt with.
func (s Stream[T]) Follow(ctx context.Context, c perdure.Caller, id string, after int64,
) iter.Seq2[Chunk[T], error] {
	return func(yield func(Chunk[T], error) bool) {
		r, err := s.reader(ctx, c, id)
		for p := (Page[T]{Next: after}); err == nil && !p.Ended; {
			if p, err = r.wait(ctx, p.Next); err != nil {
				break
			}
			for _, c := range p.Chunks {
				if !yield(c, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(Chunk[T]{}, failure.Within(r.op, err))
		}
	}
}

// A reader reads one stream of one run.
type reader[T any] struct {
	c      *sealed.Client
	op     string
	stream string
	head   journal.Head
}

func (s Stream[T]) reader(ctx context.Context, c perdure.Caller, id string) (*reader[T], error) {
	r := &reader[T]{op: "read stream " + s.name + " of " + id, stream: s.name}
	var err error
	if r.c, err = sealed.ClientOf(r.op, c); err != nil {
		return r, err
	}
	if !journal.ValidName(s.name) {
		return r, failure.BadName("stream", s.name)
	}
	if err = kernel.Outside(ctx, r.op); err != nil {
		return r, err
	}
	r.head, err = r.c.FrontEnd.Find(ctx, id)
	return r, failure.Within(r.op, err)
}

// wait reads a page, and waits for one that has chunks, or is the last one.
func (r *reader[T]) wait(ctx context.Context, after int64) (p Page[T], err error) {
	p.Next = after
	about := journal.StreamID + r.stream
	err = r.c.Runs.AwaitNews(ctx, about, r.head, func() (journal.Head, bool, error) {
		p, err = r.read(ctx, p.Next, pageSize)
		return r.head, len(p.Chunks) > 0 || p.Ended, err
	})
	return p, err
}

// read reads a page. It asks for the head first: if the run has ended by then, nothing comes after
// what the journal has.
func (r *reader[T]) read(ctx context.Context, after int64, limit int) (Page[T], error) {
	p := Page[T]{RunID: string(r.head.ID), Next: max(after, 0)}
	if !r.head.Status.IsTerminal() {
		head, err := r.c.FrontEnd.Find(ctx, string(r.head.ID))
		if err != nil {
			return p, failure.Within(r.op, err)
		}
		r.head = head
	}
	var found []journal.Entry
	for more := true; more; {
		entries, err := r.c.FrontEnd.Read(ctx, r.head, store.Range{
			From: p.Next + 1, Limit: pageSize,
		})
		if err != nil {
			return p, failure.Within(r.op, err)
		}
		more = len(entries) == pageSize
		for i := range entries {
			if limit > 0 && len(found) == limit {
				more = false
				break
			}
			p.Next = entries[i].Seq
			if e := &entries[i]; e.Kind == journal.StepOutput && e.Detail.Stream == r.stream {
				found = append(found, *e)
			}
		}
		p.Ended = !more && r.head.Status.IsTerminal() &&
			(len(entries) == 0 || p.Next == entries[len(entries)-1].Seq)
	}
	var err error
	p.Chunks, err = r.chunks(ctx, counting(found, after))
	return p, err
}

// counting returns the entries without the chunks of parts that are void, and without the ends of
// parts that begin after an offset: their readers have seen nothing of them.
func counting(all []journal.Entry, after int64) []journal.Entry {
	void := map[int64]bool{}
	for i := range all {
		if d := all[i].Detail; d.Void {
			void[d.Part] = true
		}
	}
	return slices.DeleteFunc(all, func(e journal.Entry) bool {
		part, ends := cmp.Or(e.Detail.Part, e.Seq), e.Detail.Void
		return void[part] && (!ends || part > after)
	})
}

// chunks returns the chunks of entries, with their values.
func (r *reader[T]) chunks(ctx context.Context, entries []journal.Entry) ([]Chunk[T], error) {
	var out []Chunk[T]
	for i := range entries {
		e := &entries[i]
		d := e.Detail
		c := Chunk[T]{
			Offset: e.Seq, Part: cmp.Or(d.Part, e.Seq), Void: d.Void, Attempt: d.Attempt, At: e.At,
		}
		if !d.Void {
			data, err := r.data(ctx, e)
			if err != nil {
				return nil, err
			}
			if c.Value, err = payload.Decode[T](data); err != nil {
				return nil, payload.DecodeError("stream "+r.stream, c.Value, err)
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// data returns the payload of an entry.
func (r *reader[T]) data(ctx context.Context, e *journal.Entry) ([]byte, error) {
	if e.Spill == 0 || e.Data != nil {
		return e.Data, nil
	}
	whole, err := r.c.FrontEnd.Read(ctx, r.head, store.Range{From: e.Seq, Limit: 1, Payloads: true})
	if err != nil || len(whole) == 0 {
		return nil, failure.Within(r.op, err)
	}
	return whole[0].Data, nil
}
