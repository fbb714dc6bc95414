package main

import (
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/examples/events/shop"
	"github.com/perdure/perdure/examples/internal/terminal"
)

func TestMain(m *testing.M) { terminal.Main(m, main) }

// spec
func TestTheLedgerIsRightAfterKills(t *testing.T) {
	told := terminal.Open(t).Run("-count", "60", "-kills", "3", "-seed", "7")
	for _, want := range []string{
		"60 runs have ended, over 3 kills\n", "poor COMPLETED:", "rich COMPLETED:",
	} {
		if !strings.Contains(told, want) {
			t.Errorf("it told %q, which has no %q", told, want)
		}
	}
	if n := strings.Count(told, "true   "); n != 3 {
		t.Errorf("%d checks are true: %s", n, told)
	}
}

func TestTheOrchestratorsHaveNoDefects(t *testing.T) {
	orders, payments, goods := shop.Orchestrators(nil)
	for _, d := range []perdure.Definition{orders, payments, goods} {
		if err := perdure.Check(d); err != nil {
			t.Error(err)
		}
	}
	if err := shop.Check(); err != nil {
		t.Error(err)
	}
}
