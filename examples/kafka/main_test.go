package main

import (
	"strings"
	"testing"

	"github.com/perdure/perdure/examples/internal/terminal"
)

func TestMain(m *testing.M) { terminal.Main(m, main) }

// spec: F-11, L-20
func TestEachOrderIsOneRun(t *testing.T) {
	told := terminal.Open(t).Run()
	for _, want := range []string{"20 orders, 20 runs, ", "30 orders, 30 runs, "} {
		if !strings.Contains(told, want) {
			t.Errorf("it told %q, which has no %q", told, want)
		}
	}
}
