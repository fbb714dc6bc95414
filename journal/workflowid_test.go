package journal_test

import (
	"strings"
	"testing"

	"github.com/perdure/perdure/journal"
)

// spec: L-1
func TestAWorkflowIDIsPrintableUTF8(t *testing.T) {
	for id, want := range map[string]bool{
		"a": true, "ada@shop.example/4711#2": true, "注文/七": true, "é": true,
		strings.Repeat("x", 255): true, strings.Repeat("ж", 127): true,
		"": false, strings.Repeat("x", 256): false, strings.Repeat("ж", 128): false,
		"a b": false, " a": false, "a ": false, "a\tb": false, "a\nb": false, "a\x00": false,
		"\xff":     false,
		"a\u200bb": false, "a\u2028b": false, "\u3000a": false,
	} {
		if got := journal.ValidWorkflowID(id); got != want {
			t.Errorf("%q is valid: %v, want %v", id, got, want)
		}
	}
}
