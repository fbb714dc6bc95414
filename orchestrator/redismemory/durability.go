package redismemory

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A Loss is the most that a server loses of what it has acknowledged, if it or its machine crashes.
type Loss int

// From what is not known to the worst.
const (
	NotKnown           Loss = iota // the server does not tell its settings
	LosesNothing                   // appendonly yes, appendfsync always
	LosesASecond                   // appendfsync everysec: about that, more on a slow disk
	LosesUnflushed                 // what the system has not flushed: about 30 seconds on Linux
	LosesSinceSnapshot             // no log: everything since the last snapshot, if there is one
)

// String returns what a crash loses, and what would mend it.
func (l Loss) String() string {
	return "a crash loses " + [...]string{
		NotKnown:     "an unknown part: the server does not tell its settings",
		LosesNothing: "nothing that was acknowledged",
		LosesASecond: "about the last second; appendfsync always loses nothing",
		LosesUnflushed: "what the system has not flushed yet; appendfsync always, with " +
			"no-appendfsync-on-rewrite no, loses nothing",
		LosesSinceSnapshot: "everything since the last snapshot, if there is one; appendonly " +
			"yes with appendfsync always loses nothing",
	}[l]
}

// A Durability is the result of a [Check].
type Durability struct {
	Loss     Loss
	Evicts   bool // it removes states when its memory is full
	Replicas int  // that follow it now. A failover to one may lose acknowledged writes
}

// String returns the durability as text for people.
func (d Durability) String() string {
	s := d.Loss.String()
	if d.Evicts {
		s += "\nstates are removed when the memory is full; maxmemory-policy noeviction keeps them"
	}
	if d.Replicas > 0 {
		s += fmt.Sprintf("\na failover to a replica (%d) may lose acknowledged writes", d.Replicas)
	}
	return s
}

// Check asks a server what it keeps, by INFO and CONFIG GET. It says nothing of a later change of
// the settings. Some hosted servers refuse CONFIG: then the loss is [NotKnown], or that of a server
// without a log.
//
// Of a cluster it asks any one server. To check all, call it in ForEachMaster.
func Check(ctx context.Context, client redis.UniversalClient) (d Durability, err error) {
	said, err := within(ctx, func() (string, error) { return client.Info(ctx).Result() })
	if err != nil {
		return d, fmt.Errorf("redismemory: check: %w", err)
	}
	config, err := within(ctx, func() (map[string]string, error) {
		return client.ConfigGet(ctx, "*append*").Result()
	})
	if refused := redis.Error(nil); err != nil && !errors.As(err, &refused) {
		return d, fmt.Errorf("redismemory: check: %w", err)
	}
	info := map[string]string{}
	for line := range strings.Lines(said) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		info[name] = value
	}
	d.Loss = loss(info["aof_enabled"], config)
	d.Replicas, _ = strconv.Atoi(info["connected_slaves"])
	// The other policies remove keys with an expiry only, which a memory has none of.
	d.Evicts = info["maxmemory"] != "0" && strings.HasPrefix(info["maxmemory_policy"], "allkeys")
	return d, nil
}

func loss(logs string, config map[string]string) Loss {
	fsync := config["appendfsync"]
	switch {
	case logs == "0":
		return LosesSinceSnapshot
	case fsync == "":
		return NotKnown
	case fsync == "no" || config["no-appendfsync-on-rewrite"] == "yes":
		return LosesUnflushed
	case fsync == "always":
		return LosesNothing
	}
	return LosesASecond
}
