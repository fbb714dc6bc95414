package natsmemory

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Options are the settings of a [Memory]. The zero value has the defaults.
type Options struct {
	Bucket   string // letters, digits, - and _; default "orchestration"
	Replicas int    // servers that keep the bucket: 1, 3 or 5; default 1
}

// Open opens a memory, and creates its bucket if there is none. It fails if the existing bucket
// may lose states, answers with old ones, or has fewer replicas; it does not change that bucket.
// The memory uses the connection of js as long as it exists, and never closes it.
func Open[T any](ctx context.Context, js jetstream.JetStream, o Options) (_ *Memory[T],
	err error) {
	o.Bucket, o.Replicas = cmp.Or(o.Bucket, "orchestration"), cmp.Or(o.Replicas, 1)
	defer wrap(&err, "open bucket", o.Bucket)
	config := layout(o)
	kv, err := js.KeyValue(ctx, o.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		_, err = js.CreateStream(ctx, config)
		if err == nil || errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			kv, err = js.KeyValue(ctx, o.Bucket)
		}
	}
	if err != nil {
		return nil, err
	}
	stream, err := js.Stream(ctx, config.Name)
	if err != nil {
		return nil, err
	}
	if what := unfit(stream.CachedInfo().Config, o); what != "" {
		return nil, fmt.Errorf("the stream %s %s; change it, or use another bucket", config.Name,
			what)
	}
	return &Memory[T]{js: js, kv: kv, stream: stream, under: "$KV." + o.Bucket + "."}, nil
}

// layout returns a bucket as JetStream lays it out, but that only the leader answers reads.
func layout(o Options) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: "KV_" + o.Bucket, Subjects: []string{"$KV." + o.Bucket + ".>"},
		Storage: jetstream.FileStorage, Replicas: o.Replicas, Discard: jetstream.DiscardNew,
		MaxMsgsPerSubject: 1, MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1, MaxConsumers: -1,
		AllowRollup: true, DenyDelete: true,
	}
}

// unfit returns why a bucket does not fit; nothing if it fits.
func unfit(c jetstream.StreamConfig, o Options) string {
	switch {
	case c.Storage != jetstream.FileStorage:
		return "is in memory, and must be in files"
	case c.MaxAge > 0:
		return fmt.Sprintf("forgets states after %v, and must have no TTL (max age)", c.MaxAge)
	case c.Discard != jetstream.DiscardNew:
		return "drops old states when it is full, and must refuse new ones (discard: new)"
	case c.MaxMsgSize > 0:
		return fmt.Sprintf("limits values to %d bytes, and must not", c.MaxMsgSize)
	case c.AllowDirect:
		return "lets replicas answer that may be behind, and must not (--no-allow-direct)"
	case c.Replicas < o.Replicas:
		return fmt.Sprintf("has %d replicas, and must have %d", c.Replicas, o.Replicas)
	}
	return ""
}
