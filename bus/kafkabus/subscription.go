package kafkabus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/perdure/perdure/bus"
)

// A subscription is a member of a group.
type subscription struct {
	topic, name string // the name is that at Kafka
	client      *kgo.Client
	committing  chan struct{} // has a place for the one that commits

	mu         sync.Mutex
	partitions map[int32]*partition // that the member has now
}

// A partition has the messages that a member has taken since the partition has been its own.
type partition struct {
	number    int32
	open      []*delivery // in the order of the partition, from the first that is not done with
	position  kgo.EpochOffset
	committed int64
}

// A delivery is a record that the group may be done with.
type delivery struct {
	offset int64
	epoch  int32
	done   bool
}

// errMoved is the error of a Done for a partition that another member may have.
var errMoved = errors.New("the partition is no longer this subscriber's")

// Subscribe takes messages as a new member of a group. A new group begins with the oldest event of
// the topic. While the servers are away, it waits for them.
func (b *Broker) Subscribe(ctx context.Context, topic, group string,
	deliver func(bus.Message)) error {
	err := b.subscribe(ctx, topic, group, deliver)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("kafkabus: subscribe to %s as %s: %w", topic, group, err)
}

func (b *Broker) subscribe(ctx context.Context, topic, group string,
	deliver func(bus.Message)) error {
	name, err := kafkaName(topic)
	if err != nil {
		return err
	}
	s := &subscription{
		topic: topic, name: name, committing: make(chan struct{}, 1),
		partitions: map[int32]*partition{},
	}
	s.client, err = b.client(
		kgo.ConsumerGroup(group+":"+name), kgo.ConsumeTopics(name), kgo.DisableAutoCommit(),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(s.assigned), kgo.OnPartitionsRevoked(s.revoked),
		kgo.OnPartitionsLost(s.lost))
	if err != nil {
		return err
	}
	defer s.leave()
	for ctx.Err() == nil {
		fetched := s.client.PollRecords(ctx, b.o.Batch)
		batch := s.take(fetched.Records())
		s.client.AllowRebalance()
		for _, m := range batch {
			if ctx.Err() == nil && s.has(m.from) {
				deliver(m.Message)
			}
		}
		for _, failed := range fetched.Errors() {
			if !away(failed.Err) {
				return failed.Err
			}
		}
	}
	return ctx.Err()
}

// away reports whether an error is that of servers which do not answer. The client goes on by
// itself then, and stays the member of its group that it is.
func away(err error) bool {
	var refused *kerr.Error
	if errors.As(err, &refused) {
		return refused.Retriable
	}
	return !errors.Is(err, kgo.ErrClientClosed)
}

// leave lets other members have the partitions.
func (s *subscription) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.mu.Lock()
	clear(s.partitions)
	s.mu.Unlock()
	_ = s.client.LeaveGroupContext(ctx) // else the servers miss it after the session timeout
	s.client.CloseAllowingRebalance()
}

func (s *subscription) assigned(_ context.Context, _ *kgo.Client, now map[string][]int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, number := range now[s.name] {
		s.partitions[number] = &partition{number: number}
	}
}

// revoked lets a commit that is under way end, and forgets partitions. What is done with is
// committed by then, as far as a position can say it.
func (s *subscription) revoked(ctx context.Context, c *kgo.Client, gone map[string][]int32) {
	select {
	case s.committing <- struct{}{}:
		defer func() { <-s.committing }()
	case <-ctx.Done():
	}
	s.lost(ctx, c, gone)
}

func (s *subscription) lost(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, number := range gone[s.name] {
		delete(s.partitions, number)
	}
}

// has reports whether a partition still is what the member has.
func (s *subscription) has(p *partition) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.partitions[p.number] == p
}

// A message is a message with the partition that it comes from.
type message struct {
	bus.Message
	from *partition
}

// take returns the messages of records, which are open from now on.
func (s *subscription) take(records []*kgo.Record) (all []message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range records {
		p := s.partitions[r.Partition]
		if p == nil {
			continue // another member gets it
		}
		d := &delivery{offset: r.Offset, epoch: r.LeaderEpoch}
		p.open = append(p.open, d)
		m := bus.Decode(r.Value)
		m.Done = func(ctx context.Context) error {
			if err := s.done(ctx, p, d); err != nil {
				return fmt.Errorf("kafkabus: done with a message of %s: %w", s.topic, err)
			}
			return nil
		}
		all = append(all, message{m, p})
	}
	return all
}

// done is done with a delivery. If there is none before it that is still open, it returns when that
// is committed.
func (s *subscription) done(ctx context.Context, p *partition, d *delivery) error {
	s.mu.Lock()
	d.done = true
	for len(p.open) > 0 && p.open[0].done {
		p.position = kgo.EpochOffset{Epoch: p.open[0].epoch, Offset: p.open[0].offset + 1}
		p.open = p.open[1:]
	}
	s.mu.Unlock()
	for {
		err := s.commit(ctx, p)
		if err == nil || !passing(err) {
			return err
		}
		select { // the group is just being shared out
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

// passing reports whether an error of a commit passes when the group is shared out.
func passing(err error) bool {
	return errors.Is(err, kerr.RebalanceInProgress) || errors.Is(err, kerr.IllegalGeneration) ||
		errors.Is(err, kerr.UnknownMemberID) || kerr.IsRetriable(err)
}

// commit writes the position of a partition, unless it is written.
func (s *subscription) commit(ctx context.Context, p *partition) (err error) {
	select {
	case s.committing <- struct{}{}:
		defer func() { <-s.committing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	position, mine := p.position, s.partitions[p.number] == p
	s.mu.Unlock()
	switch {
	case !mine:
		return errMoved
	case position.Offset <= p.committed:
		return nil
	}
	s.client.CommitOffsetsSync(ctx,
		map[string]map[int32]kgo.EpochOffset{s.name: {p.number: position}},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, said *kmsg.OffsetCommitResponse, e error) {
			if err = e; err == nil {
				err = refusal(said)
			}
		})
	if err == nil {
		p.committed = position.Offset
	}
	return err
}

// refusal returns the first error of a commit.
func refusal(said *kmsg.OffsetCommitResponse) error {
	for _, t := range said.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}
