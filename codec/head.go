package codec

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// textPrefix begins an encoded text of a head: base64 of what the codec has made of it.
const textPrefix = "perdure/encoded:"

// encodeHead returns a head whose texts are encoded. It does not change h.
func (s *wrapped) encodeHead(h *journal.Head) (*journal.Head, error) {
	if h == nil || h.Cause == "" && h.Error == "" {
		return h, nil
	}
	c := *h
	for what, text := range textsOf(&c) {
		encoded, err := s.encodeText(*text, s.headPlace(what, c.Number))
		if err != nil {
			return nil, err
		}
		*text = encoded
	}
	return &c, nil
}

// textsOf yields the texts of a head that are encoded, with the names of their fields.
func textsOf(h *journal.Head) func(yield func(string, *string) bool) {
	return func(yield func(string, *string) bool) {
		if h.Cause != "" && !yield("cause", &h.Cause) {
			return
		}
		if h.Error != "" {
			yield("error", &h.Error)
		}
	}
}

func (s *wrapped) encodeText(text string, at place) (string, error) {
	encoded, err := s.codec.Encode([]byte(text), at)
	if err != nil {
		return "", fmt.Errorf("codec: a text of a run was not encoded: %w", err)
	}
	if bytes.Equal(encoded, []byte(text)) && !strings.HasPrefix(text, textPrefix) {
		return text, nil
	}
	return textPrefix + base64.RawStdEncoding.EncodeToString(encoded), nil
}

// decodeHead decodes the texts of a head in place. A text that is not readable becomes the reason,
// so that a list of runs shows the others, and the rest of that one.
func (s *wrapped) decodeHead(h *journal.Head) {
	for what, text := range textsOf(h) {
		decoded, err := s.decodeText(*text, s.headPlace(what, h.Number))
		if err != nil {
			decoded = "(not readable: " + err.Error() + ")"
		}
		*text = decoded
	}
}

func (s *wrapped) decodeText(text string, at place) (string, error) {
	encoded, ok := strings.CutPrefix(text, textPrefix)
	if !ok {
		return text, nil
	}
	data, err := base64.RawStdEncoding.DecodeString(encoded)
	if err == nil {
		data, err = s.codec.Decode(data, at)
	}
	return string(data), err
}

// Find is [store.Store.Find]. The store below cannot search in failures that are encoded: if the
// filter asks for that, the runs that have failed are read and searched here.
func (s *wrapped) Find(ctx context.Context, f store.Filter) ([]journal.Head, journal.Cursor,
	error) {
	if f.Error != "" {
		return s.findError(ctx, f)
	}
	heads, next, err := s.below.Find(ctx, f)
	for i := range heads {
		s.decodeHead(&heads[i])
	}
	return heads, next, err
}

func (s *wrapped) findError(ctx context.Context, f store.Filter) ([]journal.Head, journal.Cursor,
	error) {
	all := f
	all.Error, all.Limit = "", store.MaxLimit
	if len(f.Statuses) == 0 {
		all.Statuses = journal.Statuses()
	}
	all.Statuses = slices.DeleteFunc(slices.Clone(all.Statuses), func(t journal.Status) bool {
		return !t.IsFailure()
	})
	if len(all.Statuses) == 0 {
		return nil, journal.Cursor{}, nil
	}
	read, next, err := s.below.Find(ctx, all)
	if err != nil {
		return nil, journal.Cursor{}, err
	}
	var heads []journal.Head
	for _, h := range read {
		s.decodeHead(&h)
		if !strings.Contains(store.Lower(h.Error), store.Lower(f.Error)) {
			continue
		}
		if len(heads) == f.Page() {
			return heads, heads[len(heads)-1].Cursor(), nil
		}
		heads = append(heads, h)
	}
	return heads, next, nil
}

type counter struct {
	below store.Counter
	store *wrapped
}

// Count is [store.Counter.Count]. The store below cannot search in failures that are encoded.
func (c counter) Count(ctx context.Context, f store.Filter) ([]store.Count, error) {
	if f.Error != "" {
		return store.CountFound(ctx, c.store, f)
	}
	return c.below.Count(ctx, f)
}
