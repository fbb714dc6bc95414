package demo

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

// interruptKey is the byte of Ctrl-C from a terminal in raw mode.
const interruptKey = 0x03

// terminal reports whether in and out are terminals, and returns the keyboard.
func terminal(in io.Reader, out io.Writer) (*os.File, bool) {
	keyboard, ok := in.(*os.File)
	screen, also := out.(*os.File)
	ok = ok && also && term.IsTerminal(int(keyboard.Fd())) && term.IsTerminal(int(screen.Fd()))
	return keyboard, ok
}

// withKeys sets the terminal to single keys while do runs. do must end when its context
// does. Afterwards the terminal is as it was before, also after a signal.
func withKeys(ctx context.Context, keyboard *os.File,
	do func(context.Context, <-chan byte) error) error {
	// Without this, these signals would end the process at once.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	before, err := term.MakeRaw(int(keyboard.Fd()))
	if err != nil {
		return err
	}
	// It fails if the terminal is gone.
	defer func() { _ = term.Restore(int(keyboard.Fd()), before) }()
	keys := make(chan byte)
	go func() { // ends with the terminal, or with the process
		for key := make([]byte, 1); ; {
			if n, err := keyboard.Read(key); err != nil {
				return
			} else if n == 0 {
				continue
			}
			select {
			case keys <- key[0]:
			case <-ctx.Done():
				return
			}
		}
	}()
	return do(ctx, keys)
}

// A rawScreen writes lines to a terminal in raw mode, which does not go back to the first
// column by itself.
type rawScreen struct{ io.Writer }

func (s rawScreen) Write(p []byte) (int, error) {
	if _, err := s.Writer.Write(bytes.ReplaceAll(p, []byte("\n"), []byte("\r\n"))); err != nil {
		return 0, err
	}
	return len(p), nil
}
