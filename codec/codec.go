package codec

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"

	"github.com/perdure/perdure/journal"
)

// A Codec encodes the payloads of a store. Its methods are called from many goroutines at a time.
// They neither change nor keep the bytes that they are given, but may return them.
//
// The place names what the payload is bound to, in a form that has no meaning otherwise. Decode is
// given the place that Encode was given, if nobody has moved the payload. Nothing is stored of it.
type Codec interface {
	// Encode returns the stored form of a payload. After an error, the store that was to write it
	// has written nothing, and its caller tries again.
	Encode(data, place []byte) ([]byte, error)

	// Decode returns the payload that Encode was given. It is also called with payloads that were
	// written before the codec was used, and returns those unchanged. An error means that the
	// payload is not readable: its run is parked.
	Decode(stored, place []byte) ([]byte, error)
}

// Options are options of [New]. The zero value compresses and does not encrypt.
type Options struct {
	// Keys encrypt. Without keys, payloads are not encrypted.
	Keys Keys
	// CompressFrom is the size in bytes from which on a payload is compressed, if it gets smaller
	// by it. Zero means DefaultCompressFrom; below zero, nothing is compressed. The size of a
	// compressed payload tells something about its content, also if it is encrypted.
	CompressFrom int
}

// DefaultCompressFrom is the default of Options.CompressFrom.
const DefaultCompressFrom = 1024

// New returns a codec that compresses with DEFLATE and encrypts with AES-256-GCM. Each payload has
// a random nonce of 24 bytes, by XAES-256-GCM of C2SP, so that a key serves for any number of
// payloads. The codec reads all forms that it has, whatever its options are.
func New(o Options) Codec {
	if o.CompressFrom == 0 {
		o.CompressFrom = DefaultCompressFrom
	}
	return &standard{o}
}

// Prefix begins a payload that the codec of this package has encoded. No JSON begins with it. A
// clear payload that does is encoded, even if it is neither compressed nor encrypted. A codec of an
// application may use the prefix too: an engine whose store has no codec parks a run that has such
// payloads, and does not take them for the application's.
const Prefix = journal.EncodedPrefix

// The forms of an encoded payload: the byte behind the prefix. The numbers are stored and never
// change their meaning. A sealed payload has, behind the length and text of a key ID and the nonce,
// the ciphertext of one of the other forms.
const (
	formPlain  = 0
	formFlate  = 1
	formSealed = 2
)

type standard struct{ Options }

// Encode implements [Codec].
func (c *standard) Encode(data, place []byte) ([]byte, error) {
	form, packed := byte(formPlain), data
	if c.CompressFrom > 0 && len(data) >= c.CompressFrom {
		if small := deflate(data); small != nil {
			form, packed = formFlate, small
		}
	}
	if key := c.Keys.writer(); key != nil {
		return key.seal(form, packed, place)
	}
	if form == formPlain && !seemsEncoded(data) {
		return data, nil
	}
	return append(append(append(make([]byte, 0, len(Prefix)+1+len(packed)), Prefix...), form),
		packed...), nil
}

// Decode implements [Codec].
func (c *standard) Decode(stored, place []byte) ([]byte, error) {
	if !seemsEncoded(stored) {
		return stored, nil
	}
	rest, ok := bytes.CutPrefix(stored, []byte(Prefix))
	switch {
	case !ok || len(rest) == 0:
		return nil, errChanged
	case rest[0] == formSealed:
		opened, err := c.Keys.open(rest[1:], place)
		if err != nil {
			return nil, err
		}
		return unpack(opened)
	case rest[0] == formPlain && !seemsEncoded(rest[1:]):
		return nil, errChanged // Encode has left such a payload as it is
	}
	return unpack(rest)
}

// seemsEncoded reports whether a payload begins with the prefix, or with all but one bit of it: so
// a payload with a wrong bit there does not pass for a clear one.
func seemsEncoded(data []byte) bool {
	if len(data) < len(Prefix) {
		return false
	}
	wrong := 0
	for i := range len(Prefix) {
		wrong += bits.OnesCount8(data[i] ^ Prefix[i])
	}
	return wrong <= 1
}

var (
	errShort   = errors.New("the payload is cut off")
	errChanged = errors.New("the payload was changed")
)

// unpack returns the payload of a form that is not sealed.
func unpack(packed []byte) ([]byte, error) {
	if len(packed) == 0 {
		return nil, errShort
	}
	switch packed[0] {
	case formPlain:
		return packed[1:], nil
	case formFlate:
		return inflate(packed[1:])
	}
	return nil, fmt.Errorf("the payload has the form %d, which this program does not know",
		packed[0])
}
