package main

import (
	"strings"
	"testing"

	"github.com/perdure/perdure/examples/internal/terminal"
)

func TestMain(m *testing.M) { terminal.Main(m, main) }

// spec
func TestTheAgentIsResumedUntilItAnswers(t *testing.T) {
	told := terminal.Open(t).Run()
	for _, want := range []string{
		`rivers: "rivers, after 2 facts"`, `bread: "bread, after 2 facts"`,
		`stars: "I do not know"`,
	} {
		if !strings.Contains(told, want) {
			t.Errorf("it told %q, which has no %q", told, want)
		}
	}
}
