package demo

import (
	"context"
	"errors"
	"os"
	"reflect"
	"testing"

	"golang.org/x/term"
)

// The terminal is restored after every kind of end, also after a panic.
func TestTheTerminalIsGivenBack(t *testing.T) {
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	defer keyboard.Close()
	state := func() *term.State {
		s, err := term.GetState(int(keyboard.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	before, no := state(), errors.New("no")
	for name, end := range map[string]func() error{
		"nothing": func() error { return nil },
		"error":   func() error { return no },
		"panic":   func() error { panic(no) },
	} {
		func() {
			defer func() { _ = recover() }()
			err := withKeys(t.Context(), keyboard, func(context.Context, <-chan byte) error {
				if reflect.DeepEqual(state(), before) {
					t.Errorf("%s: the terminal gives lines, not keys", name)
				}
				return end()
			})
			if name == "panic" || (err != nil) != (name == "error") {
				t.Errorf("%s: %v", name, err)
			}
		}()
		if !reflect.DeepEqual(state(), before) {
			t.Errorf("%s: the terminal still gives keys", name)
		}
	}
}
