package redismemory_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/perdure/perdure/internal/testserver"
	"github.com/perdure/perdure/orchestrator"
	"github.com/perdure/perdure/orchestrator/memorytest"
	"github.com/perdure/perdure/orchestrator/redismemory"
)

type (
	value  = memorytest.Value
	state  = orchestrator.State[value]
	change = orchestrator.Change[value]
	memory = redismemory.Memory[value]
)

// client returns a client that ends with the test.
func client(t *testing.T, o redis.Options) *redis.Client {
	c := redis.NewClient(&o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// to returns a client of a server, with the settings that a client has by itself.
func to(t *testing.T, s *testserver.Server) *redis.Client {
	return client(t, redis.Options{Addr: s.Addr()})
}

func open(c redis.UniversalClient) *memory {
	return redismemory.New[value](c, redismemory.Options{})
}

// holds takes the lock of a subject, which must be free, for longer than a test lasts.
func holds(t *testing.T, m *memory, subject string) orchestrator.Token {
	t.Helper()
	token, err := m.Lock(t.Context(), subject, time.Hour, nil)
	if err != nil || token == 0 {
		t.Fatalf("the lock of %.50q is not taken: token %d, %v", subject, token, err)
	}
	return token
}

// is fails unless the state of a subject has that text and version.
func is(t *testing.T, m *memory, subject, text string, version int64) {
	t.Helper()
	s, err := m.Read(t.Context(), subject, nil)
	if err != nil || s == nil || s.Value.Text != text || s.Version != version {
		t.Fatalf("%.50q has %+v, %v; want %s, version %d", subject, s, err, text, version)
	}
}

// worlds is a world of memories on a server, each with a client of its own.
func worlds(t *testing.T, c func() redis.UniversalClient) memorytest.World {
	return memorytest.World{
		Open: func() orchestrator.Memory[value] { return open(c()) },
	}
}

// spec
func TestTheMemoryKeepsTheContract(t *testing.T) {
	s := testserver.Redis(t)
	memorytest.Run(t, func(t *testing.T) memorytest.World {
		if err := to(t, s).FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		return worlds(t, func() redis.UniversalClient { return to(t, s) })
	})
}

// cluster starts a cluster of one server. It refuses a script with keys of two slots.
func cluster(t *testing.T) *testserver.Server {
	t.Helper()
	s := testserver.Redis(t, "--cluster-enabled", "yes")
	c := to(t, s)
	if err := c.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	for {
		said, err := c.ClusterInfo(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(said, "cluster_state:ok") {
			return s
		}
	}
}

// toCluster returns a client of a cluster that reads from replicas if it may.
func toCluster(t *testing.T, o redis.ClusterOptions) *redis.ClusterClient {
	o.ReadOnly = true
	c := redis.NewClusterClient(&o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// spec: A-15
func TestTheMemoryKeepsTheContractOnACluster(t *testing.T) {
	s := cluster(t)
	memorytest.Run(t, func(t *testing.T) memorytest.World {
		if err := to(t, s).FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		return worlds(t, func() redis.UniversalClient {
			return toCluster(t, redis.ClusterOptions{Addrs: []string{s.Addr()}})
		})
	})
}

// spec: A-15
func TestAnySubjectAndParentIsApartFromTheOthers(t *testing.T) {
	names := []string{
		"", "a", "{a}", "{a", "a}", "{a}b", "}{", "{}", "a:children", "{a}:children", "%7Ba%7D",
		"a\n", "a\r\nb", "\x00", "\xff", "世界", strings.Repeat("long{", 100_000),
	}
	c := to(t, testserver.Redis(t))
	m := open(c)
	for i, n := range names {
		w := change{Next: value{Text: fmt.Sprint(i)}, Lock: holds(t, m, n)}
		meta := &orchestrator.Metadata{Parent: orchestrator.To(n)}
		if err := m.Write(t.Context(), n, w, meta); err != nil {
			t.Fatalf("%.50q: %v", n, err)
		}
	}
	keys, err := c.Keys(t.Context(), "*").Result()
	if want := 2*len(names) - 1; err != nil || len(keys) != want {
		t.Errorf("there are %d keys, want %d: %v", len(keys), want, err)
	}
	for _, k := range keys { // the whole subject is the tag, which decides the slot
		if !regexp.MustCompile(`^orchestration:{[^{}\s]*}(:children)?$`).MatchString(k) {
			t.Errorf("there is the key %.50q", k)
		}
	}
	for i, n := range names {
		is(t, m, n, fmt.Sprint(i), 1)
		found, err := m.Children(t.Context(), n)
		if want := []string{n}; n != "" && !slices.Equal(found, want) || err != nil {
			t.Errorf("the children of %.50q are %.50q, %v", n, found, err)
		}
	}
}

// spec: A-15
func TestMemoriesWithOtherPrefixesAreApart(t *testing.T) {
	c := to(t, testserver.Redis(t))
	var all []*memory
	for _, prefix := range []string{"", "a:", "a:{b}", "{b}:children", "{"} {
		all = append(all, redismemory.New[value](c, redismemory.Options{Prefix: prefix}))
	}
	for i, m := range all {
		meta := &orchestrator.Metadata{Parent: orchestrator.To("b")}
		w := change{Next: value{Text: fmt.Sprint(i)}, Lock: holds(t, m, "b")}
		if err := m.Write(t.Context(), "b", w, meta); err != nil {
			t.Fatal(err)
		}
	}
	for i, m := range all {
		is(t, m, "b", fmt.Sprint(i), 1)
	}
	found, err := c.Keys(t.Context(), "orchestration:*").Result()
	slices.Sort(found)
	want := []string{"orchestration:{b}", "orchestration:{b}:children"}
	if err != nil || !slices.Equal(found, want) {
		t.Errorf("the keys are %q, %v; want %q", found, err, want)
	}
}

// spec
func TestTheClockOfAClientDoesNotMatter(t *testing.T) {
	s := testserver.Redis(t)
	m, token := open(to(t, s)), orchestrator.Token(0)
	held := func(m *memory, subject string) {
		if token, err := m.Lock(t.Context(), subject, time.Minute, nil); token != 0 || err != nil {
			t.Errorf("the lock of %s is taken: token %d, %v", subject, token, err)
		}
	}
	holds(t, m, "a")
	// The clock of a bubble begins in the year 2000. The server's does not.
	synctest.Test(t, func(t *testing.T) {
		c := redis.NewClient(&redis.Options{Addr: s.Addr()})
		defer c.Close()
		early := open(c)
		held(early, "a")
		token = holds(t, early, "b")
		time.Sleep(50 * 365 * 24 * time.Hour)
		held(early, "a")
		held(early, "b")
		c1 := change{Next: value{Text: "one"}, Lock: token}
		if err := early.Write(t.Context(), "b", c1, nil); err != nil {
			t.Errorf("a write under the lock: %v", err)
		}
	})
	held(m, "b")
	is(t, m, "b", "one", 1)
	if ok, err := m.Unlock(t.Context(), "b", token, nil); !ok || err != nil {
		t.Errorf("the lock is not freed: %v, %v", ok, err)
	}
}

// spec
func TestTokensGrowAlsoIfTheServerHasLostAll(t *testing.T) {
	c := to(t, testserver.Redis(t))
	m := open(c)
	old := holds(t, m, "a")
	if err := c.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if token := holds(t, m, "a"); token <= old {
		t.Errorf("token %d follows token %d", token, old)
	}
	err := m.Write(t.Context(), "a", change{Lock: old}, nil)
	if !errors.Is(err, orchestrator.ErrFenced) {
		t.Errorf("a write under the lost lock: %v", err)
	}
	// A token from a time that the clock has not reached, as after the clock was set back.
	const ahead = 1 << 52
	err = c.HSet(t.Context(), "orchestration:{b}", "token", ahead).Err()
	if token := holds(t, m, "b"); err != nil || token != ahead+1 {
		t.Errorf("token %d follows token %d: %v", token, ahead, err)
	}
}

// spec
func TestALockThatHasPassedIsNotHeld(t *testing.T) {
	c := to(t, testserver.Redis(t))
	m, ctx := open(c), t.Context()
	old := holds(t, m, "a")
	// The server has it that the lock was taken long ago.
	if err := c.HSet(ctx, "orchestration:{a}", "until", 1).Err(); err != nil {
		t.Fatal(err)
	}
	err := m.Write(ctx, "a", change{Lock: old}, nil)
	if !errors.Is(err, orchestrator.ErrFenced) {
		t.Errorf("a late write: %v", err)
	}
	if ok, err := m.Unlock(ctx, "a", old, nil); ok || err != nil {
		t.Errorf("a late unlock gives %v, %v", ok, err)
	}
	holds(t, m, "a")
}

// spec
func TestARefusedWriteChangesNothing(t *testing.T) {
	c := to(t, testserver.Redis(t))
	m, ctx := open(c), t.Context()
	token := holds(t, m, "a")
	if err := m.Write(ctx, "a", change{Next: value{Text: "one"}, Lock: token}, nil); err != nil {
		t.Fatal(err)
	}
	before, err := c.HGetAll(ctx, "orchestration:{a}").Result()
	if err != nil {
		t.Fatal(err)
	}
	old := &state{Version: 7}
	parent := &orchestrator.Metadata{Parent: orchestrator.To("p")}
	for _, refused := range []struct {
		change
		want error
		says string
	}{
		{change{Prev: old, Lock: token}, orchestrator.ErrConflict, "not the one that was read"},
		{change{Lock: token}, orchestrator.ErrConflict, "not the one that was read"},
		{change{Prev: old, Lock: token - 1}, orchestrator.ErrFenced, "not held any more"},
		{change{Lock: 0}, orchestrator.ErrFenced, "not held any more"},
	} {
		err := m.Write(ctx, "a", refused.change, parent)
		if !errors.Is(err, refused.want) || !strings.HasPrefix(err.Error(),
			"redismemory: write a: ") || !strings.HasSuffix(err.Error(), refused.says) {
			t.Errorf("the error of %+v is %v", refused.change, err)
		}
	}
	after, err := c.HGetAll(ctx, "orchestration:{a}").Result()
	if err != nil || fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the hash was %v, and is %v, %v", before, after, err)
	}
	if keys, err := c.Keys(ctx, "*").Result(); err != nil || len(keys) != 1 {
		t.Errorf("there are the keys %q, %v", keys, err)
	}
}

// spec: A-15
func TestChildrenAreFoundOnlyWithAState(t *testing.T) {
	c := to(t, testserver.Redis(t))
	m, ctx := open(c), t.Context()
	// As a crash between the set and the write leaves it.
	if err := c.SAdd(ctx, "orchestration:{p}:children", "lost", "other's").Err(); err != nil {
		t.Fatal(err)
	}
	token := holds(t, m, "other's")
	other := &orchestrator.Metadata{Parent: orchestrator.To("q")}
	if err := m.Write(ctx, "other's", change{Lock: token}, other); err != nil {
		t.Fatal(err)
	}
	// The parent of this one is learned late, and then told by none.
	token = holds(t, m, "late")
	for version, meta := range []*orchestrator.Metadata{
		nil, {}, {Parent: orchestrator.To("p")}, {}, {Parent: orchestrator.None}, nil,
	} {
		w := change{Prev: &state{Version: int64(version)}, Lock: token}
		if err := m.Write(ctx, "late", w, meta); err != nil {
			t.Fatal(err)
		}
	}
	for parent, want := range map[string]string{"p": "[late]", "q": "[other's]", "none": "[]"} {
		found, err := m.Children(ctx, parent)
		if err != nil || fmt.Sprint(found) != want {
			t.Errorf("the children of %s are %v, %v; want %s", parent, found, err, want)
		}
	}
}

// spec: A-15
func TestAChildIsListedBeforeItIsWritten(t *testing.T) {
	s := testserver.Redis(t)
	c, m := to(t, s), open(to(t, s))
	token := holds(t, m, "child")
	// The set cannot be written: this key is no set.
	if err := c.Set(t.Context(), "orchestration:{p}:children", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	meta := &orchestrator.Metadata{Parent: orchestrator.To("p")}
	if err := m.Write(t.Context(), "child", change{Lock: token}, meta); err == nil {
		t.Error("a child is written that is in no set")
	}
	if found, err := m.Read(t.Context(), "child", nil); found != nil || err != nil {
		t.Errorf("the child has the state %+v, %v", found, err)
	}
	if _, err := m.Children(t.Context(), "p"); err == nil {
		t.Error("children are read from what is no set")
	}
}

// spec: A-15
func TestAStateThatCannotBeReadIsAnError(t *testing.T) {
	c := to(t, testserver.Redis(t))
	m, ctx := open(c), t.Context()
	for _, fields := range [][]any{
		{"version", "1", "data", "{"}, {"version", "x", "data", "{}"}, {"version", "1", "data", ""},
	} {
		if err := c.HSet(ctx, "orchestration:{a}", fields...).Err(); err != nil {
			t.Fatal(err)
		}
		s, err := m.Read(ctx, "a", nil)
		if s != nil || err == nil || !strings.HasPrefix(err.Error(), "redismemory: read a: ") {
			t.Errorf("%v is read as %+v, %v", fields, s, err)
		}
	}
}

// spec
func TestNoEventIsLostOrDoubledOnRedisWhereverAProcessDies(t *testing.T) {
	c := to(t, testserver.Redis(t))
	memorytest.RunOrder(t, func() orchestrator.Memory[orchestrator.Record] {
		return redismemory.New[orchestrator.Record](c, redismemory.Options{})
	})
}
