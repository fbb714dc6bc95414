package codec

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"io"
	"sync"
)

// maxInflated is the largest size that a payload may have to be compressed. A larger one stays as
// it is, so that no stored payload makes a reader allocate more than this.
const maxInflated = 64 << 20

// maxRatio is above the ratio of the best compression that DEFLATE has, which is 1032.
const maxRatio = 1040

var (
	deflaters = sync.Pool{New: func() any {
		w, _ := flate.NewWriter(nil, flate.BestSpeed) // it fails for other levels only
		return w
	}}
	inflaters = sync.Pool{New: func() any { return flate.NewReader(nil) }}
)

// deflate returns the size of a payload and its compressed form; nil if that is not smaller.
func deflate(data []byte) []byte {
	if len(data) > maxInflated {
		return nil
	}
	var out bytes.Buffer
	out.Grow(len(data) / 2)
	out.Write(binary.AppendUvarint(nil, uint64(len(data))))
	w := deflaters.Get().(*flate.Writer)
	defer deflaters.Put(w)
	w.Reset(&out)
	_, err := w.Write(data)
	if err = errors.Join(err, w.Close()); err != nil || out.Len() >= len(data) {
		return nil
	}
	return out.Bytes()
}

var errInflate = errors.New("the compressed payload is not valid")

// inflate returns the payload that deflate has compressed. It allocates no more than the payload
// can have by its compressed size.
func inflate(packed []byte) ([]byte, error) {
	size, n := binary.Uvarint(packed)
	if n <= 0 || size > maxInflated || size > uint64(len(packed)-n)*maxRatio {
		return nil, errInflate
	}
	r := inflaters.Get().(io.ReadCloser)
	defer inflaters.Put(r)
	// The reader is given a ByteReader, and so reads no further than the end of the stream.
	from := bytes.NewReader(packed[n:])
	if err := r.(flate.Resetter).Reset(from, nil); err != nil {
		return nil, errInflate
	}
	out := make([]byte, size)
	if _, err := io.ReadFull(r, out); err != nil {
		return nil, errInflate
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF || from.Len() != 0 {
		return nil, errInflate
	}
	return out, nil
}
