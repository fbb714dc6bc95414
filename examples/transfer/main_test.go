package main

import (
	"strings"
	"testing"

	"github.com/perdure/perdure/examples/internal/terminal"
)

func TestMain(m *testing.M) { terminal.Main(m, main) }

// spec: F-36, F-43
func TestTheBankHasAsMuchAsBefore(t *testing.T) {
	at := terminal.Open(t)
	told := at.Run("-transfers", "200", "-kills", "3", "-seed", "7")
	for _, want := range []string{"before: 20 accounts have 2000000 cents", "3 kills", "after:  20 accounts have 2000000 cents, 0 set aside", "CONFIRMED", "CANCELED"} {
		if !strings.Contains(told, want) {
			t.Errorf("it told %q, which has no %q", told, want)
		}
	}
}
