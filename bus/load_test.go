package bus_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/orchestrator"
)

// Ten megabytes come in by an event, start a run, and go out again.
//
// spec: F-10, F-11
func TestTenMegabytesGoInAndOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, g := &bus.Local{}, bus.NewGateway()
		w := world.With(t, perdure.Options{Publisher: outbound(b)}, perdure.Define("large",
			func(ctx context.Context, text string) (int, error) {
				return len(text), perdure.Do(ctx, "emit", func(ctx context.Context) error {
					return perdure.Emit(ctx, "back", text)
				})
			}, g.Starts("large", bus.Route{})))
		text := strings.Repeat("x", 10<<20)
		data, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		e := event.Event{ID: "1", Source: "/s", Type: "large", Data: data}
		if err := g.On(t.Context(), w.Engine.Client, e); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		all := heard(t, b, "out")
		w.End()
		if len(all) != 1 || len(all[0].Data) != len(data) {
			t.Errorf("%d events have come back", len(all))
		}
	})
}

// A publisher that takes a second for each event holds up no run, and gets them all.
//
// spec: F-10, R-29
func TestAConsumerThatIsSlowerThanTheOutboxHoldsUpNoRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const runs, each = 20, 50
		got := map[string][]string{}
		var lock = make(chan struct{}, 1)
		talks := perdure.Define("talks", func(ctx context.Context, n int) (int, error) {
			for i := range each {
				if err := perdure.Emit(ctx, "said", fmt.Sprint(i)); err != nil {
					return 0, err
				}
			}
			return 0, nil
		})
		w := world.With(t, perdure.Options{
			Publisher: func(ctx context.Context, e perdure.Event) error {
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
					return ctx.Err()
				}
				lock <- struct{}{}
				got[e.WorkflowID] = append(got[e.WorkflowID], string(e.Data))
				<-lock
				return nil
			},
		}, talks)
		for i := range runs {
			world.Must[*perdure.Run[int]](t)(talks.Start(t.Context(), w.Engine, i,
				perdure.ID(fmt.Sprint("r", i))))
		}
		time.Sleep(10 * time.Second)
		if n := w.Count()[perdure.StatusCompleted]; n != runs {
			t.Errorf("%d runs have ended", n)
		}
		time.Sleep(time.Hour)
		w.End()
		for i := range runs {
			all := slices.Compact(got[fmt.Sprint("r", i)])
			if len(all) != each || all[0] != `"0"` || all[each-1] != fmt.Sprintf("%q", fmt.Sprint(each-1)) {
				t.Errorf("run %d: %d events", i, len(all))
			}
		}
	})
}

// A storm is a broker that delivers each message twenty times.
type storm struct{ bus.Local }

func (s *storm) Subscribe(ctx context.Context, topic, group string,
	deliver func(bus.Message)) error {
	return s.Local.Subscribe(ctx, topic, group, func(m bus.Message) {
		for range 20 {
			deliver(m)
		}
	})
}

// spec
func TestAStormOfRedeliveriesHandlesEachEventOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, count := &storm{}, &orchestrator.Counter{}
		var out []event.Event
		o := &orchestrator.Orchestrator{
			Source: "counts", Memory: &orchestrator.Local[orchestrator.Record]{},
			Observe: count.Count,
			Publish: func(_ context.Context, events []event.Event) error {
				out = append(out, events...)
				return nil
			},
			Versions: []orchestrator.Version{{Initial: []string{"x"},
				Handle: func(_ context.Context, t *orchestrator.Turn) error {
					t.Emit(event.Event{Type: "counted"})
					return t.Become(1)
				}}},
		}
		h := &handler{}
		c := h.consumer(b)
		c.Handle, c.Lanes = bus.Done(o.On), 1
		stop := runs(t, c)
		for i := range 50 {
			publish(t, &b.Local, about(fmt.Sprint(i%7), i))
		}
		time.Sleep(time.Hour)
		stop()
		n := count.Counts()
		if n["handled"] != 50 || n["duplicate"] != 50*19 || len(out) != 50 || len(h.letters) > 0 {
			t.Errorf("%v, %d events, %d letters", n, len(out), len(h.letters))
		}
	})
}
