package natsmemory_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/perdure/perdure/internal/testserver"
	"github.com/perdure/perdure/orchestrator"
	"github.com/perdure/perdure/orchestrator/memorytest"
	"github.com/perdure/perdure/orchestrator/natsmemory"
)

type (
	value  = memorytest.Value
	state  = orchestrator.State[value]
	change = orchestrator.Change[value]
	token  = orchestrator.Token
	memory = natsmemory.Memory[value]
)

// server starts a server with more settings.
func server(t testing.TB, settings string) *testserver.Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	return testserver.NATS(t, "-c", file)
}

// connect connects to a server, as another process would. A call ends with its own context only.
func connect(t testing.TB, addr string, options ...nats.Option) jetstream.JetStream {
	t.Helper()
	silent := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	c, err := nats.Connect("nats://"+addr, append(options, silent)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	js, err := jetstream.New(c, jetstream.WithDefaultTimeout(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func open(t testing.TB, js jetstream.JetStream, o natsmemory.Options) *memory {
	t.Helper()
	m, err := natsmemory.Open[value](t.Context(), js, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// spec
func TestAMemoryOnNATSKeepsTheContract(t *testing.T) {
	s := server(t, "max_payload: 8MB")
	n := 0
	memorytest.Run(t, func(t *testing.T) memorytest.World {
		n++
		bucket, ttl := fmt.Sprint("world-", n), 2*time.Second
		if strings.HasSuffix(t.Name(), "with_its_version") {
			ttl = time.Minute // no lock passes there, and a large state takes its time
		}
		return memorytest.World{
			Open: func() orchestrator.Memory[value] {
				return open(t, connect(t, s.Addr()), natsmemory.Options{Bucket: bucket})
			},
			TTL: ttl,
		}
	})
}

// lock takes a lock that must be free.
func lock(t testing.TB, m *memory, subject string, ttl time.Duration) token {
	t.Helper()
	tok, err := m.Lock(t.Context(), subject, ttl, nil)
	if err != nil || tok == 0 {
		t.Fatalf("the lock of %q gives %d, %v", subject, tok, err)
	}
	return tok
}

// write writes a text after the state that is there.
func write(t testing.TB, m *memory, subject, text string, tok token) error {
	t.Helper()
	prev, err := m.Read(t.Context(), subject, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m.Write(t.Context(), subject, change{
		Next: value{Text: text}, Prev: prev, Lock: tok,
	}, nil)
}

// spec: A-15
func TestABucketThatDoesNotFitIsRefused(t *testing.T) {
	js := connect(t, server(t, "").Addr())
	type config = jetstream.StreamConfig
	for name, c := range map[string]struct {
		with func(*config)
		says string
	}{
		"fits":   {func(*config) {}, ""},
		"memory": {func(c *config) { c.Storage = jetstream.MemoryStorage }, "files"},
		"ttl":    {func(c *config) { c.MaxAge = time.Hour }, "TTL"},
		"old":    {func(c *config) { c.Discard = jetstream.DiscardOld }, "discard"},
		"small":  {func(c *config) { c.MaxMsgSize = 9 }, "9 bytes"},
		"direct": {func(c *config) { c.AllowDirect = true }, "behind"},
		"plain":  {func(c *config) { c.MaxMsgsPerSubject = 0 }, "bucket"},
	} {
		existing := config{
			Name: "KV_" + name, Subjects: []string{"$KV." + name + ".>"}, MaxMsgsPerSubject: 1,
			Discard: jetstream.DiscardNew, DenyDelete: true, AllowRollup: true,
		}
		c.with(&existing)
		if _, err := js.CreateStream(t.Context(), existing); err != nil {
			t.Fatal(err)
		}
		_, err := natsmemory.Open[value](t.Context(), js, natsmemory.Options{Bucket: name})
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: the error is %v, and should be about %q", name, err, c.says)
		}
	}
	_, err := natsmemory.Open[value](t.Context(), js, natsmemory.Options{
		Bucket: "fits", Replicas: 3,
	})
	if err == nil || !strings.Contains(err.Error(), "has 1 replicas") {
		t.Errorf("too few replicas: %v", err)
	}
	_, err = natsmemory.Open[value](t.Context(), js, natsmemory.Options{Bucket: "a name"})
	if !errors.Is(err, jetstream.ErrInvalidBucketName) {
		t.Errorf("a bucket with a wrong name: %v", err)
	}
}

// spec: A-15
func TestManyOpenTheDefaultBucketAtOnce(t *testing.T) {
	s := server(t, "")
	var group sync.WaitGroup
	for range 8 {
		js := connect(t, s.Addr())
		group.Go(func() {
			if _, err := natsmemory.Open[value](t.Context(), js, natsmemory.Options{}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	stream, err := connect(t, s.Addr()).Stream(t.Context(), "KV_orchestration")
	if err != nil {
		t.Fatal(err)
	}
	c := stream.CachedInfo().Config
	if c.Storage != jetstream.FileStorage || c.Replicas != 1 || c.MaxMsgsPerSubject != 1 ||
		c.MaxAge != 0 || c.AllowDirect {
		t.Errorf("the bucket is %+v", c)
	}
}

// spec: A-15
func TestAStateThatIsTooLargeIsRefusedAndHarmsNothing(t *testing.T) {
	m := open(t, connect(t, server(t, "max_payload: 64KB").Addr()), natsmemory.Options{})
	subject := strings.Repeat("\x00", 500)
	tok := lock(t, m, subject, time.Hour)
	largest := 64 << 10
	for ; ; largest -= 7 {
		err := write(t, m, subject, strings.Repeat("x", largest), tok)
		if err == nil {
			break
		}
		if !errors.Is(err, nats.ErrMaxPayload) || !strings.Contains(err.Error(), "max_payload") ||
			!strings.Contains(err.Error(), "65536") {
			t.Fatalf("the error is %v", err)
		}
	}
	for range 3 { // what was stored is not too large for a lock
		if ok, err := m.Unlock(t.Context(), subject, tok, nil); err != nil || !ok {
			t.Fatal(ok, err)
		}
		tok = lock(t, m, subject, time.Hour)
		if err := write(t, m, subject, strings.Repeat("x", largest), tok); err != nil {
			t.Fatal(err)
		}
	}
}

// spec: A-15
func TestANameThatIsNoTextIsRefused(t *testing.T) {
	m := open(t, connect(t, server(t, "").Addr()), natsmemory.Options{})
	if tok, err := m.Lock(t.Context(), "a\xff", time.Hour, nil); err == nil {
		t.Errorf("the lock of a name that is not UTF-8 gives %d", tok)
	}
	tok := lock(t, m, "a", time.Hour)
	d := &orchestrator.Metadata{Parent: orchestrator.To("p\xff")}
	if err := m.Write(t.Context(), "a", change{Lock: tok}, d); err == nil {
		t.Error("a parent that is not UTF-8 is accepted")
	}
}

// spec
func TestTokensGrowAlsoAfterAKeyWasDeletedByHand(t *testing.T) {
	js := connect(t, server(t, "").Addr())
	m := open(t, js, natsmemory.Options{})
	kv, err := js.KeyValue(t.Context(), "orchestration")
	if err != nil {
		t.Fatal(err)
	}
	key := fmt.Sprintf("state.%x", sha256.Sum256([]byte("a")))
	for _, remove := range []func(context.Context, string, ...jetstream.KVDeleteOpt) error{
		kv.Delete, kv.Purge,
	} {
		old := lock(t, m, "a", time.Hour)
		if err := write(t, m, "a", "x", old); err != nil {
			t.Fatal(err)
		}
		if err := remove(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		if err := write(t, m, "a", "x", old); !errors.Is(err, orchestrator.ErrFenced) {
			t.Errorf("a write without its lock gives %v", err)
		}
		now := lock(t, m, "a", time.Hour)
		if now <= old {
			t.Errorf("token %d follows token %d", now, old)
		}
		if ok, err := m.Unlock(t.Context(), "a", now, nil); err != nil || !ok {
			t.Error(ok, err)
		}
	}
}

// spec: A-15
func TestANoteOfAChildWithoutAStateIsNoChild(t *testing.T) {
	js := connect(t, server(t, "").Addr())
	m := open(t, js, natsmemory.Options{})
	kv, err := js.KeyValue(t.Context(), "orchestration")
	if err != nil {
		t.Fatal(err)
	}
	// What a process leaves that dies before it stores the state.
	lock(t, m, "locked", time.Hour)
	for _, child := range []string{"locked", "unknown"} {
		key := fmt.Sprintf("child.%x.%x", sha256.Sum256([]byte("p")), sha256.Sum256([]byte(child)))
		if _, err := kv.Put(t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := m.Children(t.Context(), "p"); err != nil || len(all) > 0 {
		t.Errorf("the children are %q, %v", all, err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, parent := range []string{"p", ""} {
		if all, err := m.Children(over, parent); !errors.Is(err, context.Canceled) {
			t.Errorf("after the end of the context: %q, %v", all, err)
		}
	}
}

func BenchmarkEvent(b *testing.B) {
	m := open(b, connect(b, server(b, "").Addr()), natsmemory.Options{})
	ctx := context.Background()
	for i := 0; b.Loop(); i++ {
		tok, err := m.Lock(ctx, "a", 10e9, nil)
		if err != nil || tok == 0 {
			b.Fatal(tok, err)
		}
		s, err := m.Read(ctx, "a", nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := m.Write(ctx, "a", change{Prev: s, Lock: tok}, nil); err != nil {
			b.Fatal(err)
		}
		if ok, err := m.Unlock(ctx, "a", tok, nil); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

// spec
func TestNoEventIsLostOrDoubledOnNATSWhereverAProcessDies(t *testing.T) {
	js := connect(t, server(t, "max_payload: 8MB").Addr())
	m, err := natsmemory.Open[orchestrator.Record](t.Context(), js, natsmemory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	memorytest.RunOrder(t, func() orchestrator.Memory[orchestrator.Record] { return m })
}
