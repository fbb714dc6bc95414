package expr

import (
	"testing"

	"github.com/perdure/perdure/pattern"
)

// spec: F-16
func TestAPanicIsAnError(t *testing.T) {
	c := &condition{text: "true", root: func(*run) (any, error) { panic("no such opcode") }}
	holds, err := c.Holds(t.Context(), pattern.View{})
	if want := "perdure: condition: it panicked: no such opcode in: true"; holds || err == nil ||
		err.Error() != want {
		t.Errorf("%v, %v", holds, err)
	}
}
