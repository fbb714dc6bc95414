package expr

import (
	"testing"

	"github.com/perdure/perdure"
)

// spec: F-16
func TestAPanicIsAnError(t *testing.T) {
	c := &condition{text: "true", root: func(*run) (any, error) { panic("no such opcode") }}
	holds, err := c.Holds(t.Context(), perdure.Known{})
	if want := "perdure: condition: it panicked: no such opcode in: true"; holds || err == nil || err.Error() != want {
		t.Errorf("%v, %v", holds, err)
	}
}
