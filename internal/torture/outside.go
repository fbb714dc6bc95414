//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/perdure/perdure/internal/torture/world"
)

// serveWorld is the outside world: it records every call before it answers, and ends with its
// input.
func serveWorld(args []string) error {
	f := flag.NewFlagSet("world", flag.ContinueOnError)
	socket := f.String("socket", "", "")
	path := f.String("ledger", "", "")
	if err := f.Parse(args); err != nil {
		return err
	}
	file, err := os.OpenFile(*path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(file)
	l := &world.Ledger{Write: func(e world.Entry) error { return lines.Encode(e) }}
	listener, err := net.Listen("unix", *socket)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // it ends when the supervisor does
		os.Exit(0)
	}()
	return http.Serve(listener, l.Handler())
}

// A ledger has the calls of the world's record, as far as it was read.
type ledger struct {
	path string
	read int64
}

// more reads the calls since the last time.
func (l *ledger) more() (out []world.Entry, err error) {
	file, err := os.Open(l.path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.Seek(l.read, io.SeekStart); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		var e world.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return out, err
		}
		l.read += int64(len(line))
		out = append(out, e)
	}
}
