package demo

import (
	"reflect"
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
)

func TestPlanIsOfItsSeed(t *testing.T) {
	now := time.Now()
	for seed := range uint64(100) {
		orders := 1 + int(seed%9)
		p, err := NewPlan(seed, orders, int(seed%3), now)
		if err != nil {
			t.Fatal(err)
		}
		again, err := NewPlan(seed, orders, int(seed%3), now)
		if err != nil || !reflect.DeepEqual(p, again) {
			t.Fatalf("seed %d gives another plan the second time", seed)
		}
		refused := 0
		for _, j := range p.Jobs {
			if j.Status == journal.Failed {
				refused++
			}
		}
		shipped := orders - refused
		if refused == 0 || shipped == 0 && orders > 1 || p.Left < spare ||
			p.Left > p.Stock-int64(shipped) {
			t.Errorf("seed %d: %+v", seed, p)
		}
		seen := map[Target]bool{}
		for _, k := range p.Kills {
			seen[k] = true
		}
		if len(seen) != int(seed%3) {
			t.Errorf("seed %d: kills %v", seed, p.Kills)
		}
	}
}

func TestKillsAreSpreadOverTheWorkflows(t *testing.T) {
	for seed := range uint64(50) {
		p, err := NewPlan(seed, 30, 12, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		workflow, hit := map[string]string{}, map[string]int{}
		for _, j := range p.Jobs {
			workflow[j.ID] = j.Workflow
		}
		for _, k := range p.Kills {
			hit[workflow[k.Run]]++
		}
		if len(hit) != 6 || hit["order-fulfilment"] > 3 {
			t.Errorf("seed %d: %v", seed, hit)
		}
	}
}

func TestDefaultOrdersFitTheKills(t *testing.T) {
	for kills := range 200 {
		if _, err := NewPlan(uint64(kills), DefaultOrders(kills), kills, time.Now()); err != nil {
			t.Error(err)
		}
	}
	if _, err := NewPlan(1, 1, 60, time.Now()); err == nil {
		t.Error("sixty kills fit in a demo of one order")
	}
}

func TestASubscriptionWaitsForItsNextMonthOnEveryDay(t *testing.T) {
	for day := range 3 * 366 {
		now := time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC).AddDate(0, 0, day)
		p, err := NewPlan(1, 3, 0, now)
		if err != nil {
			t.Fatal(err)
		}
		s := p.Jobs[len(p.Jobs)-1]
		if len(s.Calls) != 3 || s.Waits < 10*24*time.Hour {
			t.Errorf("on %s: %d charges, and the next one after %s", now, len(s.Calls), s.Waits)
		}
	}
}
