package redisbus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/perdure/perdure/bus"
)

const (
	block  = 500 * time.Millisecond // how long a read waits for messages; the client cannot stop it
	answer = 10 * time.Second       // how long a server may take to answer
)

// A subscription is a consumer of a group.
type subscription struct {
	*Broker
	topic, group, me string

	mu   sync.Mutex
	open map[string]bool // the IDs of the messages that are not done with
}

// Subscribe takes messages as a new consumer of a group, which it makes if there is none. A new
// group begins with the oldest event of the stream.
func (b *Broker) Subscribe(ctx context.Context, topic, group string,
	deliver func(bus.Message)) error {
	s := &subscription{
		Broker: b, topic: topic, group: group, me: rand.Text(), open: map[string]bool{},
	}
	err := s.run(ctx, deliver)
	if at, has := ctx.Deadline(); has && !time.Now().Before(at) {
		<-ctx.Done() // a connection may see the end of the time first
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("redisbus: subscribe to %s as %s: %w", topic, group, err)
}

func (s *subscription) run(ctx context.Context, deliver func(bus.Message)) error {
	err := s.c.XGroupCreateMkStream(ctx, s.topic, s.group, "0").Err()
	if err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") {
		return fmt.Errorf("group: %w", err)
	}
	defer s.giveBack(ctx)
	defer s.keep(ctx)()
	var claimed time.Time
	for next := "0-0"; ctx.Err() == nil; {
		var left []bus.Message
		if next != "0-0" || time.Since(claimed) > min(s.o.Idle/3, time.Second) {
			if left, next, err = s.claim(ctx, next); err != nil {
				return err
			}
			claimed = time.Now()
		}
		more, err := s.read(ctx, len(left) == 0)
		if err != nil {
			return err
		}
		for _, m := range append(left, more...) {
			if ctx.Err() == nil {
				deliver(m)
			}
		}
	}
	return ctx.Err()
}

// read returns new messages. If there are none it waits for some, unless it should not.
func (s *subscription) read(ctx context.Context, wait bool) ([]bus.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	args := &redis.XReadGroupArgs{
		Group: s.group, Consumer: s.me, Streams: []string{s.topic, ">"}, Count: int64(s.o.Batch),
		Block: block,
	}
	if !wait {
		args.Block = -1
	}
	streams, err := s.c.XReadGroup(ctx, args).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	var all []bus.Message
	for _, entry := range streams[0].Messages {
		all = append(all, s.message(entry, 1))
	}
	return all, nil
}

// claim takes over messages of consumers that have left or are silent. It looks at some entries,
// from start on, and returns where it is to go on.
func (s *subscription) claim(ctx context.Context, start string) (
	all []bus.Message, next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	entries, next, err := s.c.XAutoClaim(ctx, &redis.XAutoClaimArgs{
		Stream: s.topic, Group: s.group, Consumer: s.me, MinIdle: s.o.Idle, Start: start,
		Count: int64(s.o.Batch),
	}).Result()
	if err != nil {
		return nil, "", fmt.Errorf("claim: %w", err)
	}
	for _, entry := range entries {
		s.mu.Lock()
		mine := s.open[entry.ID]
		s.mu.Unlock()
		if mine {
			continue
		}
		attempt := 2
		about, err := s.c.XPendingExt(ctx, &redis.XPendingExtArgs{
			Stream: s.topic, Group: s.group, Start: entry.ID, End: entry.ID, Count: 1,
		}).Result()
		if err == nil && len(about) > 0 {
			attempt = int(about[0].RetryCount)
		}
		all = append(all, s.message(entry, attempt))
	}
	return all, next, nil
}

// message returns what is delivered of an entry, which is open until the group is done with it.
func (s *subscription) message(entry redis.XMessage, attempt int) bus.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[entry.ID] = true
	m := decode(entry)
	m.Attempt = attempt
	m.Done = func(ctx context.Context) error {
		if err := s.c.XAck(ctx, s.topic, s.group, entry.ID).Err(); err != nil {
			return fmt.Errorf("redisbus: done with a message of %s: %w", s.topic, err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, entry.ID)
		return nil
	}
	return m
}

// keeping sets the idle times of entries to zero that a consumer still has.
var keeping = redis.NewScript(`
for i = 3, #ARGV do
	if #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1, ARGV[2]) > 0 then
		redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'JUSTID')
	end
end`)

// keep calls in for the messages again and again, until it is ended: they are worked on.
func (s *subscription) keep(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var calls sync.WaitGroup
	calls.Go(func() {
		tick := time.NewTicker(s.o.Idle / 3)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			s.mu.Lock()
			ids := slices.Collect(maps.Keys(s.open))
			s.mu.Unlock()
			args := []any{s.group, s.me}
			for _, id := range ids {
				args = append(args, id)
			}
			// An error has others claim the messages.
			_ = keeping.Run(ctx, s.c, []string{s.topic}, args...).Err()
		}
	})
	return func() {
		cancel()
		calls.Wait()
	}
}

// leaving has others claim all that a consumer has, and removes the consumer.
var leaving = redis.NewScript(`
repeat
	local all = redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1000, ARGV[2])
	for _, p in ipairs(all) do
		redis.call('XCLAIM', KEYS[1], ARGV[1], 'left', 0, p[1], 'IDLE', ARGV[3], 'JUSTID')
	end
until #all == 0
redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])`)

// giveBack lets other members have the messages.
func (s *subscription) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	// If it fails, others have them after the idle time.
	_ = leaving.Run(ctx, s.c, []string{s.topic}, s.group, s.me, s.o.Idle.Milliseconds()).Err()
}
