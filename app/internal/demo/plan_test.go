package demo

import (
	"reflect"
	"testing"
)

func TestPlanIsOfItsSeed(t *testing.T) {
	for seed := range uint64(100) {
		orders := 1 + int(seed%9)
		p, err := NewPlan(seed, orders, int(seed%3))
		if err != nil {
			t.Fatal(err)
		}
		again, err := NewPlan(seed, orders, int(seed%3))
		if err != nil || !reflect.DeepEqual(p, again) {
			t.Fatalf("seed %d gives another plan the second time", seed)
		}
		shipped := orders - len(p.Refused)
		if len(p.Refused) == 0 || shipped == 0 && orders > 1 || p.Left < spare || p.Left > p.Stock-int64(shipped) {
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
		p, err := NewPlan(seed, 30, 12)
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
		if len(hit) != len(workflows(nil)) || hit["order-fulfilment"] > 3 {
			t.Errorf("seed %d: %v", seed, hit)
		}
	}
}

func TestDefaultOrdersFitTheKills(t *testing.T) {
	for kills := range 200 {
		if _, err := NewPlan(uint64(kills), DefaultOrders(kills), kills); err != nil {
			t.Error(err)
		}
	}
	if _, err := NewPlan(1, 1, 60); err == nil {
		t.Error("sixty kills fit in a demo of one order")
	}
}
