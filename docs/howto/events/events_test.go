package howto

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/orchestrator"
	"github.com/perdure/perdure/orchestrator/memorytest"
	"github.com/perdure/perdure/store/memory"
)

// spec: F-10, F-11, L-6, L-20, A-16
func TestThePageIsRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		b, db := &bus.Local{}, memory.New()
		client, err := perdure.NewClient(ctx, db)
		if err != nil {
			t.Fatal(err)
		}
		engine, err := perdure.New(db, Options(b, bus.Letters{Admin: admin.New(client)}))
		if err != nil {
			t.Fatal(err)
		}
		if err := engine.Register(Orders, Greet); err != nil {
			t.Fatal(err)
		}
		if err := Inbound.Wake("shipment.sent", "order"); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() { _ = engine.Run(ctx) })
		all.Go(func() { _ = Consume(ctx, b, engine) })
		for i, e := range []event.Event{
			{Type: "order.placed", Subject: "o-1", Data: []byte(`{"id": "o-1", "cents": 5}`)},
			{Type: "payment.made", Subject: "o-1"},
			{Type: "shipment.sent", Data: []byte(`{"order": "o-1", "track": "T7"}`)},
			{Type: "order.placed", Subject: "o-2", Data: []byte(`{"id": "o-2"}`)}, // no money
		} {
			e.ID, e.Source = fmt.Sprint(i), "/shop"
			if err := b.Publish(ctx, "shop", []event.Event{e}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		run, err := Greet.Get(ctx, engine, "o-1")
		if err != nil {
			t.Fatal(err)
		}
		if track, err := run.Result(ctx); track != "T7" || err != nil {
			t.Errorf("%s, %v", track, err)
		}
		state, err := Orders.Get(ctx, engine, "orders:o-1")
		if err != nil {
			t.Fatal(err)
		}
		if s, err := state.Result(ctx); string(s) != `"paid"` || err != nil {
			t.Errorf("%s, %v", s, err)
		}
		time.Sleep(time.Hour)
		letters, _, err := admin.New(client).DeadLetters(ctx, admin.DeadLetterQuery{})
		var steps []string
		for _, l := range letters {
			steps = append(steps, l.Workflow+" "+l.Step)
		}
		// nobody takes payment.wanted and shipment.wanted here
		if err != nil || len(letters) != 3 || slices.Compact(steps)[0] != "bus.orders shop" {
			t.Errorf("%+v, %v", letters, err)
		}
		stop()
		all.Wait()
	})
}

// spec, P-15
func TestTheMemoryOfThePageKeepsTheContract(t *testing.T) {
	for _, c := range memorytest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &Shelf[memorytest.Value]{}
				if err := c.Check(t.Context(), memorytest.World{
					Open: func() orchestrator.Memory[memorytest.Value] { return m },
				}); err != nil {
					t.Error(err)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		m := &Shelf[orchestrator.Record]{}
		memorytest.RunOrder(t, func() orchestrator.Memory[orchestrator.Record] { return m })
	})
}

// spec: A-1
func TestTheMemoryOfThePageIsShort(t *testing.T) {
	code, err := os.ReadFile("memory.go")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for l := range strings.Lines(string(code)) {
		l = strings.TrimSpace(l)
		if l != "" && l != "}" && l != "})" && !strings.HasPrefix(l, "//") {
			lines++
		}
	}
	if lines >= 60 {
		t.Errorf("it has %d lines of code", lines)
	}
	t.Logf("%d lines of code", lines)
}
