// Package howto is the code of the page about encryption.
package howto

import (
	"bytes"
	"context"
	"crypto/cipher"
	"crypto/rand"
	"errors"

	"github.com/perdure/perdure/codec"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/open"
)

// Open opens a database whose payloads are encrypted.
func Open(ctx context.Context, address, keyFile string) (store.Store, error) {
	keys, err := codec.KeysFromFile(keyFile)
	if err != nil {
		return nil, err
	}
	db, err := open.Store(ctx, address)
	if err != nil {
		return nil, err
	}
	s, err := codec.Wrap(ctx, db, codec.New(codec.Options{Keys: keys}))
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// A Boxed encrypts with a cipher of the application.
type Boxed struct{ cipher.AEAD }

// Encode is [codec.Codec.Encode].
func (b Boxed) Encode(data, place []byte) ([]byte, error) {
	nonce := make([]byte, b.NonceSize())
	rand.Read(nonce)
	return b.Seal(append([]byte(codec.Prefix), nonce...), nonce, data, place), nil
}

// Decode is [codec.Codec.Decode].
func (b Boxed) Decode(stored, place []byte) ([]byte, error) {
	box, ok := bytes.CutPrefix(stored, []byte(codec.Prefix))
	switch n := b.NonceSize(); {
	case !ok:
		return stored, nil // it was written before
	case len(box) < n:
		return nil, errors.New("the box is cut off")
	default:
		return b.Open(nil, box[:n], box[n:], place)
	}
}
