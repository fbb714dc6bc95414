package steps

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
)

// Bytes that code sets as the payload, or ends with, are kept unchanged, as are the bytes that a
// run is started with and returns.
func TestBytesThatCodeSetsAreKeptAsTheyAre(t *testing.T) {
	raw := []byte("\x00no JSON\xff")
	var seen []byte
	wf := perdure.Define("raw", func(ctx context.Context, _ []byte) ([]byte, error) {
		if err := perdure.SetPayload(ctx, raw); err != nil {
			return nil, err
		}
		var err error
		if seen, err = perdure.Payload[[]byte](ctx); err != nil {
			return nil, err
		}
		return nil, pattern.End(ctx, journal.Completed, raw, nil)
	})
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, wf)
		defer w.End()
		out, err := world.Start(w, wf, []byte("x"), perdure.ID("w")).Result(t.Context())
		if err != nil || !bytes.Equal(out, raw) || !bytes.Equal(seen, raw) {
			t.Errorf("it gives %q and has seen %q, %v", out, seen, err)
		}
	})
}
