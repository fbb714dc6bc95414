package codec

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// encode replaces what is encoded of an entry or message. It changes no bytes and no detail.
func (s *wrapped) encode(e *journal.Entry, inbox bool) (err error) {
	if e.Data != nil && !isSearched(e) {
		if e.Data, err = s.codec.Encode(e.Data, s.dataPlace(e, inbox)); err != nil {
			return fmt.Errorf("codec: a payload was not encoded: %w", err)
		}
	}
	if d := e.Detail; e.Spill != 0 || d != nil && !isClear(d) {
		e.Detail, err = s.sealDetail(e, inbox)
	}
	return err
}

// isSearched reports whether the store itself reads the payload of the entry.
func isSearched(e *journal.Entry) bool { return e.Kind == journal.AttributeSet }

// isClear reports whether a detail has nothing to encode.
func isClear(d *journal.Detail) bool {
	return d.Failure == nil && d.Reason == "" && d.Headers == nil
}

// sealDetail returns a detail whose failure, reason and headers are encoded. The entry of a large
// payload has one in any case.
func (s *wrapped) sealDetail(e *journal.Entry, inbox bool) (*journal.Detail, error) {
	var clear, secret journal.Detail
	if e.Detail != nil {
		clear = *e.Detail
	}
	secret.Failure, secret.Reason, secret.Headers = clear.Failure, clear.Reason, clear.Headers
	plain, err := journal.EncodeDetail(&secret)
	if err != nil {
		return nil, &store.DataError{
			Err: fmt.Errorf("the detail of entry %d of run %d: %w", e.Seq, e.Run, err),
		}
	}
	sealed, err := s.codec.Encode(plain, s.detailPlace(e, inbox))
	if err != nil {
		return nil, fmt.Errorf("codec: a detail was not encoded: %w", err)
	}
	if bytes.Equal(sealed, plain) {
		return e.Detail, nil
	}
	clear.Failure, clear.Reason, clear.Headers = nil, "", nil
	clear.Sealed = sealed
	return &clear, nil
}

// decode replaces what was encoded of an entry or message. Its error is a CorruptError.
func (s *wrapped) decode(e *journal.Entry, inbox bool) error {
	if e.Data != nil && !isSearched(e) {
		data, err := s.codec.Decode(e.Data, s.dataPlace(e, inbox))
		if err != nil {
			return corrupt(e, "its payload", err)
		}
		if e.Data = data; data == nil {
			e.Data = []byte{}
		}
	}
	if e.Detail == nil || e.Detail.Sealed == nil {
		return nil
	}
	plain, err := s.codec.Decode(e.Detail.Sealed, s.detailPlace(e, inbox))
	if err != nil {
		return corrupt(e, "its detail", err)
	}
	secret, err := journal.DecodeDetail(plain)
	if err == nil && secret == nil {
		err = errors.New("the sealed part is empty")
	}
	if err != nil {
		return corrupt(e, "its detail", err)
	}
	d := *e.Detail
	d.Failure, d.Reason, d.Headers, d.Sealed = secret.Failure, secret.Reason, secret.Headers, nil
	if e.Detail = &d; reflect.ValueOf(d).IsZero() {
		e.Detail = nil
	}
	return nil
}

func corrupt(e *journal.Entry, what string, err error) error {
	return &journal.CorruptError{
		Run: e.Run, Seq: e.Seq, Reason: what + ": " + err.Error(), Err: err,
	}
}

// decodeAll decodes entries or messages in place. It returns those before the first that is not
// readable, and the CorruptError of that one.
func (s *wrapped) decodeAll(entries []journal.Entry, inbox bool) ([]journal.Entry, error) {
	for i := range entries {
		if err := s.decode(&entries[i], inbox); err != nil {
			return entries[:i], err
		}
	}
	return entries, nil
}

// decodeRun decodes a claimed run.
func (s *wrapped) decodeRun(r *store.Run) {
	s.decodeHead(&r.Head)
	entries, err := s.decodeAll(r.Entries, false)
	if err != nil {
		r.Entries, r.Inbox, r.More, r.Err = entries, nil, false, err
		return
	}
	if r.Inbox, err = s.decodeAll(r.Inbox, true); err != nil {
		r.More, r.Err = false, err
	}
}
