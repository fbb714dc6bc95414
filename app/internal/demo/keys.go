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

// interruptKey is Ctrl-C on a terminal that gives single keys.
const interruptKey = 0x03

// terminal says whether people sit at in and out, and gives the terminal.
func terminal(in io.Reader, out io.Writer) (*os.File, bool) {
	keyboard, ok := in.(*os.File)
	screen, also := out.(*os.File)
	ok = ok && also && term.IsTerminal(int(keyboard.Fd())) && term.IsTerminal(int(screen.Fd()))
	return keyboard, ok
}

// withKeys has a terminal give single keys while do runs, which must end when its
// context does. Whatever ends it, the terminal is as it was before.
func withKeys(ctx context.Context, keyboard *os.File,
	do func(context.Context, <-chan byte) error) error {
	// these would end the process here and now
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	before, err := term.MakeRaw(int(keyboard.Fd()))
	if err != nil {
		return err
	}
	// it fails where the terminal is gone
	defer func() { _ = term.Restore(int(keyboard.Fd()), before) }()
	keys := make(chan byte)
	go func() { // it ends with the terminal, or with the process
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

// rawScreen writes lines to a terminal that gives single keys: it does not go
// back to the first column by itself.
type rawScreen struct{ io.Writer }

func (s rawScreen) Write(p []byte) (int, error) {
	if _, err := s.Writer.Write(bytes.ReplaceAll(p, []byte("\n"), []byte("\r\n"))); err != nil {
		return 0, err
	}
	return len(p), nil
}
