package redismemory_test

import (
	"net"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/testserver"
	"github.com/perdure/perdure/orchestrator/redismemory"
)

// spec: A-15
func TestCheckTellsWhatAServerKeeps(t *testing.T) {
	for _, c := range []struct {
		args string
		want redismemory.Durability
		says string
	}{
		{"", redismemory.Durability{Loss: redismemory.LosesNothing},
			"a crash loses nothing that was acknowledged"},
		{"--appendfsync everysec", redismemory.Durability{Loss: redismemory.LosesASecond},
			"about the last second"},
		{"--appendfsync no", redismemory.Durability{Loss: redismemory.LosesUnflushed},
			"has not flushed"},
		{"--no-appendfsync-on-rewrite yes",
			redismemory.Durability{Loss: redismemory.LosesUnflushed},
			"with no-appendfsync-on-rewrite no"},
		{"--appendonly no", redismemory.Durability{Loss: redismemory.LosesSinceSnapshot},
			"everything since the last snapshot"},
		{"--maxmemory 64mb --maxmemory-policy allkeys-lru",
			redismemory.Durability{Loss: redismemory.LosesNothing, Evicts: true},
			"noeviction keeps them"},
		{"--maxmemory 64mb --maxmemory-policy volatile-lru",
			redismemory.Durability{Loss: redismemory.LosesNothing}, "nothing"},
		{"--maxmemory-policy allkeys-lru",
			redismemory.Durability{Loss: redismemory.LosesNothing}, "nothing"},
		{"--rename-command CONFIG hidden",
			redismemory.Durability{Loss: redismemory.NotKnown}, "does not tell"},
		{"--rename-command CONFIG hidden --appendonly no",
			redismemory.Durability{Loss: redismemory.LosesSinceSnapshot}, "snapshot"},
	} {
		t.Run(c.args, func(t *testing.T) {
			s := testserver.Redis(t, strings.Fields(c.args)...)
			d, err := redismemory.Check(t.Context(), to(t, s))
			if err != nil || d != c.want || !strings.Contains(d.String(), c.says) {
				t.Errorf("%q gives %+v, %v: %s", c.args, d, err, d)
			}
		})
	}
}

// spec: A-15
func TestCheckTellsOfReplicas(t *testing.T) {
	s := testserver.Redis(t)
	host, port, _ := net.SplitHostPort(s.Addr())
	testserver.Redis(t, "--replicaof", host+" "+port)
	c := to(t, s)
	for {
		d, err := redismemory.Check(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if d.Replicas == 1 {
			if !strings.Contains(d.String(), "a failover to a replica (1)") {
				t.Errorf("it says %s", d)
			}
			break
		}
	}
}

// spec: A-15
func TestCheckOfAServerThatIsNotThereFails(t *testing.T) {
	s := testserver.Redis(t, "--rename-command", "INFO", "hidden")
	c := to(t, s)
	for range 2 {
		d, err := redismemory.Check(t.Context(), c)
		if err == nil || !strings.HasPrefix(err.Error(), "redismemory: check: ") {
			t.Errorf("it gives %+v, %v", d, err)
		}
		s.Stop()
	}
}
