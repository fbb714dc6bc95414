package pattern_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/perdure/perdure/pattern"
)

// spec: F-8
func TestANameIsCheckedWithItsPrefix(t *testing.T) {
	for _, c := range []struct{ name, prefix, want string }{
		{"a.b_C:0-9", "undo:", "<nil>"},
		{strings.Repeat("x", 250), "undo:", "<nil>"},
		{"x" + strings.Repeat("x", 250), "undo:", "allowed are 1 to 250 of A-Z a-z 0-9 . _ : -"},
		{"", "undo:", `step "" is not valid: allowed are 1 to 250 of`},
		{"a b", "", `step "a b" is not valid: allowed are 1 to 255 of`},
		{"a", strings.Repeat("x", 254), "<nil>"},
		{"a", strings.Repeat("x", 255), `step "a" is not valid: the prefix "xxx`},
	} {
		if got := fmt.Sprint(pattern.CheckName("step", c.name, c.prefix)); !strings.Contains(got,
			c.want) {
			t.Errorf("%q after %q: %s, want %s", c.name, c.prefix, got, c.want)
		}
	}
}
