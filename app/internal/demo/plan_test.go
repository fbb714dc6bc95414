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
		if len(p.Orders) != orders || len(p.Refused) == 0 || p.Left() < 10 || p.Left() >= p.Stock && len(p.Refused) < orders {
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

func TestDefaultOrdersFitTheKills(t *testing.T) {
	for kills := range 200 {
		if _, err := NewPlan(uint64(kills), DefaultOrders(kills), kills); err != nil {
			t.Error(err)
		}
	}
	if _, err := NewPlan(1, 1, 6); err == nil {
		t.Error("six kills fit in one order")
	}
}
