package brokertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/event"
)

// samples returns events of all kinds. Some differ in their source alone, some in their ID.
func samples() []event.Event {
	bytes256 := make([]byte, 256)
	for i := range bytes256 {
		bytes256[i] = byte(i)
	}
	of := func(id, media string, data []byte) event.Event {
		return event.Event{ID: id, Source: "/s", Type: "t", ContentType: media, Data: data}
	}
	return []event.Event{
		{ID: "1", Source: "/s", Type: "t"},
		{ID: "1", Source: "/s2", Type: "t"},
		{
			ID: "all", Source: "https://example.org/orders?a=1#b", Type: "org.example.order.paid",
			Subject: "order/7", Time: time.Date(2026, 3, 7, 14, 30, 1, 987654321, time.UTC),
			Schema: "https://example.org/schema", ContentType: "application/json",
			Data: []byte(`{"a": [1, 12345678901234567890.5, null], "b": "<&> ü \u2028"}`),
			Extensions: map[string]string{
				event.ExtParent: "order/1", event.ExtInitiator: "/shop", event.ExtReplyTo: "/shop",
				event.ExtCause: "id 0", "x1": "a; b=\"c\", é 世界",
				event.ExtTrace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			},
		},
		{
			ID: "世界 '\" \\ %41 \U0001F600", Source: "/ü", Type: "größe", Subject: " {a} *>#:",
			Data: []byte(`"世界 \u0000"`),
		},
		of("null", "", []byte("null")),
		of("+json", "application/vnd.a+json; charset=utf-8", []byte("1")),
		of("text", "text/plain", []byte("grüße \x00\r\n")),
		of("binary", "application/octet-stream", bytes256),
		of("empty", "application/octet-stream", []byte{}),
		of("large", "text/plain", bytes.Repeat([]byte("large"), 100_000)),
	}
}

// same reports whether an event has arrived as it was sent.
func same(sent, got event.Event) bool {
	if !sent.Time.Equal(got.Time) || (sent.Data == nil) != (got.Data == nil) {
		return false
	}
	if media := sent.ContentType; media == "" || strings.Contains(media, "json") {
		if !reflect.DeepEqual(value(sent.Data), value(got.Data)) {
			return false
		}
	} else if !bytes.Equal(sent.Data, got.Data) {
		return false
	}
	sent.Time, got.Time, sent.Data, got.Data = time.Time{}, time.Time{}, nil, nil
	return reflect.DeepEqual(sent, got)
}

// show returns an event for a message, with the beginning of its data.
func show(e event.Event) string {
	if size := len(e.Data); size > 100 {
		e.Data = fmt.Appendf(nil, "%s and so on, %d bytes", e.Data[:100], size)
	}
	return fmt.Sprintf("%+v, data %q (nil: %v)", e, e.Data, e.Data == nil)
}

// value returns the value of a JSON text.
func value(data []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return err.Error()
	}
	return v
}

func arriveWhole(s *stage) error {
	r, err := s.join("whole", "g")
	if err != nil {
		return err
	}
	sent := samples()
	for _, batch := range [][]event.Event{nil, sent[:5], sent[5:6], sent[6:]} {
		if err := s.sendBatch("whole", batch); err != nil {
			return err
		}
	}
	got, err := r.onlyGets(sent)
	if err != nil {
		return err
	}
	for _, m := range got {
		i := slices.IndexFunc(sent, func(e event.Event) bool { return key(e) == key(m.Event) })
		if !same(sent[i], m.Event) {
			err = errors.Join(err, fmt.Errorf("%s was sent, and %s has come", show(sent[i]),
				show(m.Event)))
		}
		if m.Attempt > 1 {
			err = errors.Join(err, fmt.Errorf("event %q is delivered for the first time as "+
				"attempt %d", key(m.Event), m.Attempt))
		}
	}
	return errors.Join(err, s.finish(got...))
}

func keepOrder(s *stage) error {
	r, err := s.join("order", "g")
	if err != nil {
		return err
	}
	sent := numbered(95)
	for from, n := 0, 1; from < len(sent); from, n = from+n, n%30+7 {
		if err := s.sendBatch("order", sent[from:min(from+n, len(sent))]); err != nil {
			return err
		}
	}
	got, err := r.onlyGets(sent)
	if err != nil {
		return err
	}
	return errors.Join(s.inOrder(got), s.finish(got...))
}

// inOrder fails if numbered events have not come in order.
func (s *stage) inOrder(got []bus.Message) error {
	before := map[string]int{}
	for _, m := range got {
		n, line := 0, ""
		if _, err := fmt.Sscan(m.Event.ID, &n); err != nil {
			return err
		}
		if s.BySubject {
			line = m.Event.Subject
		}
		if last, some := before[line]; some && n < last {
			return fmt.Errorf("event %d comes after event %d", n, last)
		}
		before[line] = n
	}
	return nil
}

func apart(s *stage) error {
	var readers []*reader
	names := [][2]string{ // of a topic and a group
		{"a", "g"}, {"A", "g"}, {"a.b", "c"}, {"a", "b.c"}, {"a-b", "c"}, {"a_b", "c"},
		{"a/b", "c"}, {"a", "b/c"}, {"a/b/c", "g"}, {"a.b.c", "g"}, {"a_2Fb", "c"}, {"0", "0"},
		{strings.Repeat("long", 20), "g"},
	}
	for _, n := range names {
		r, err := s.join(n[0], n[1])
		if err != nil {
			return err
		}
		readers = append(readers, r)
	}
	of := func(topic string) event.Event {
		return event.Event{ID: "of " + topic, Source: "/apart", Type: "apart"}
	}
	sent := map[string]bool{}
	for _, r := range readers {
		if !sent[r.topic] {
			if err := s.send(r.topic, of(r.topic)); err != nil {
				return err
			}
		}
		sent[r.topic] = true
	}
	for _, r := range readers {
		got, err := r.onlyGets([]event.Event{of(r.topic)})
		if err = errors.Join(err, s.finish(got...)); err != nil {
			return err
		}
	}
	return nil
}

func groupsGetAll(s *stage) error {
	sent, readers := numbered(10), []*reader{}
	for _, group := range []string{"g", "G", "g2"} {
		r, err := s.join("each", group)
		if err != nil {
			return err
		}
		readers = append(readers, r)
	}
	if err := s.send("each", sent...); err != nil {
		return err
	}
	for _, r := range readers {
		got, err := r.onlyGets(sent)
		if err = errors.Join(err, s.inOrder(got), s.finish(got...)); err != nil {
			return err
		}
	}
	return nil
}

func membersShare(s *stage) error {
	one, err := s.join("shared", "g")
	if err != nil {
		return err
	}
	two, err := s.join("shared", "g")
	if err != nil {
		return err
	}
	const publishers, each = 4, 25
	sent, errs := numbered(publishers*each), make([]error, publishers)
	var group sync.WaitGroup
	for i := range publishers {
		group.Go(func() { errs[i] = s.send("shared", sent[i*each:(i+1)*each]...) })
	}
	seen := map[string]bool{}
	err = s.shared(one, two, seen, len(sent))
	group.Wait()
	if err = errors.Join(append(errs, err)...); err != nil {
		return err
	}
	last, err := s.last("shared")
	if err != nil {
		return err
	}
	for !seen[key(last)] && err == nil {
		err = s.shared(one, two, seen, len(seen)+1)
	}
	return err
}

// shared is done with events until n have been seen, each of which comes to one of two.
func (s *stage) shared(one, two *reader, seen map[string]bool, n int) error {
	for len(seen) < n {
		var m bus.Message
		select {
		case m = <-one.inbox:
		case m = <-two.inbox:
		case <-time.After(s.Patience):
			return fmt.Errorf("%d of %d events have come to the two members", len(seen), n)
		}
		if k := key(m.Event); seen[k] && !s.Positions {
			return fmt.Errorf("event %q comes twice", k)
		}
		seen[key(m.Event)] = true
		if err := s.finish(m); err != nil {
			return err
		}
	}
	return nil
}

// twice fails if messages that come again are counted as the first.
func twice(got []bus.Message) error {
	for _, m := range got {
		if m.Attempt == 1 {
			return fmt.Errorf("event %q comes again, and as the first attempt", key(m.Event))
		}
	}
	return nil
}

// left has a reader take events and leave without being done with them.
func (s *stage) left(topic string, sent []event.Event) error {
	r, err := s.join(topic, "g")
	if err != nil {
		return err
	}
	if err := s.send(topic, sent...); err != nil {
		return err
	}
	_, err = r.gets(sent)
	return errors.Join(err, r.stop())
}

func nextGetsTheRest(s *stage) error {
	sent := numbered(6)
	if err := s.left("rest", sent); err != nil {
		return err
	}
	r := s.again("rest")
	got, err := r.gets(sent)
	if err = errors.Join(err, twice(got), r.stop()); err != nil {
		return err
	}
	r = s.again("rest")
	got, err = r.onlyGets(sent)
	return errors.Join(err, twice(got), s.finish(got...))
}

func othersGetTheRest(s *stage) error {
	one, err := s.join("others", "g")
	if err != nil {
		return err
	}
	two, err := s.join("others", "g")
	if err != nil {
		return err
	}
	sent := numbered(30)
	if err := s.send("others", sent...); err != nil {
		return err
	}
	// One of them takes a message. What it is not done with, and all else, goes to the other.
	var m bus.Message
	select {
	case m = <-one.inbox:
	case m = <-two.inbox:
		one, two = two, one
	case <-time.After(s.Patience):
		return errors.New("nothing comes to the two members")
	}
	if err := one.stop(); err != nil {
		return err
	}
	got, err := two.gets(sent)
	if err != nil {
		return fmt.Errorf("after a member has left with event %q: %w", key(m.Event), err)
	}
	return s.finish(got...)
}

func doneIsDone(s *stage) error {
	r, err := s.join("done", "g")
	if err != nil {
		return err
	}
	first, second := numbered(20)[:10], numbered(20)[10:]
	if err := s.send("done", first...); err != nil {
		return err
	}
	got, err := r.gets(first)
	slices.Reverse(got)
	if err = errors.Join(err, s.finish(got...), r.stop()); err != nil {
		return err
	}
	r = s.again("done")
	if err := s.send("done", second...); err != nil {
		return err
	}
	if got, err = r.gets(second); err != nil {
		return err
	}
	open := map[string]bool{"10": true, "12": true, "13": true, "18": true}
	var rest []event.Event
	for _, m := range got {
		if open[m.Event.ID] {
			rest = append(rest, m.Event)
		} else {
			err = errors.Join(err, s.finish(m))
		}
	}
	if err = errors.Join(err, r.stop()); err != nil {
		return err
	}
	var spare []event.Event
	if s.Positions {
		spare = second
	}
	r = s.again("done")
	got, err = r.onlyGets(rest, spare...)
	if err = errors.Join(err, twice(got), s.finish(got...)); err != nil {
		return err
	}
	return r.quiet()
}

func doneAnywhere(s *stage) error {
	r, err := s.join("anywhere", "g")
	if err != nil {
		return err
	}
	sent := numbered(50)
	if err := s.send("anywhere", sent...); err != nil {
		return err
	}
	errs := make([]error, len(sent))
	got, err := r.gets(sent)
	var group sync.WaitGroup
	for i, m := range got {
		group.Go(func() { errs[i] = s.finish(m) })
	}
	group.Wait()
	if err = errors.Join(append(errs, err, r.stop())...); err != nil {
		return err
	}
	_, err = s.again("anywhere").onlyGets(nil)
	return err
}

func doneLate(s *stage) error {
	r, err := s.join("late", "g")
	if err != nil {
		return err
	}
	sent := numbered(4)
	if err := s.send("late", sent...); err != nil {
		return err
	}
	got, err := r.gets(sent)
	if err = errors.Join(err, r.stop()); err != nil {
		return err
	}
	var open []event.Event // may come again
	for _, m := range got {
		if s.finish(m) != nil {
			open = append(open, m.Event)
		}
	}
	_, err = s.again("late").onlyGets(nil, open...)
	return err
}

func heldBack(s *stage) error {
	held, err := s.join("held", "g")
	if err != nil {
		return err
	}
	other, err := s.join("held", "other")
	if err != nil {
		return err
	}
	sent := numbered(100)
	if err := s.sendBatch("held", sent); err != nil {
		return err
	}
	got, err := other.gets(sent)
	if err = errors.Join(err, s.finish(got...)); err != nil {
		return err
	}
	if n := held.calls.Load(); n > 1 {
		return fmt.Errorf("%d messages are delivered while deliver does not return", n)
	}
	got, err = held.onlyGets(sent)
	return errors.Join(err, s.inOrder(got), s.finish(got...))
}

func subscriptionEnds(s *stage) error {
	ended, cancel := context.WithCancel(s.ctx)
	cancel()
	soon, cancel := context.WithTimeout(s.ctx, 50*time.Millisecond)
	defer cancel()
	for _, ctx := range []context.Context{ended, soon} {
		if err := s.read(ctx, "ends", "g").end(); err != nil {
			return err
		}
	}
	return nil
}

func early(s *stage) error {
	sent := numbered(12)
	before, after := sent[:6], sent[6:]
	if err := s.send("early", before...); err != nil {
		return err
	}
	r, err := s.join("early", "g")
	if err != nil {
		return err
	}
	if err := s.send("early", after...); err != nil {
		return err
	}
	got, err := r.gets(after, before...)
	return errors.Join(err, s.inOrder(got), s.finish(got...))
}

func refused(s *stage) error {
	r, err := s.join("refused", "g")
	if err != nil {
		return err
	}
	for _, bad := range []event.Event{
		{ID: "x", Source: "/x"}, {ID: "x", Source: "/x", Type: "x", Data: []byte("{")},
		{ID: "x", Source: "/x", Type: "x", Extensions: map[string]string{"Bad": "x"}},
	} {
		batch := numbered(3)
		batch[1] = bad
		if err := s.sendBatch("refused", batch); err == nil {
			return fmt.Errorf("event %v is published, and should be refused", bad)
		}
	}
	_, err = r.onlyGets(nil)
	return err
}

func publishEnds(s *stage) error {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	if s.Publish(ctx, s.Prefix+"ended", numbered(1)) == nil {
		return errors.New("an event is published after the end of the context")
	}
	return nil
}

func noEvent(s *stage) error {
	if s.Raw == nil {
		return nil
	}
	r, err := s.join("bad", "g")
	if err != nil {
		return err
	}
	for _, raw := range []string{
		"no JSON", "[]", `{"specversion":"1.0","id":"1","source":"/s"}`, "\xff\x00",
	} {
		if err := s.Raw(s.ctx, s.Prefix+"bad", []byte(raw)); err != nil {
			return err
		}
		m, err := r.next()
		if err != nil {
			return fmt.Errorf("after %q: %w", raw, err)
		}
		if m.Bad == nil || string(m.Raw) != raw {
			return fmt.Errorf("%q is no event, and comes as %q, with the error %w", raw, m.Raw,
				m.Bad)
		}
		if err := s.finish(m); err != nil {
			return err
		}
	}
	if err := r.stop(); err != nil {
		return err
	}
	_, err = s.again("bad").onlyGets(nil)
	return err
}
