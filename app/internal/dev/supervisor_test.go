package dev

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure"
)

// starts is an environment variable with a file: a test binary that has it notes its start there,
// says that it serves, and dies.
const starts = "PERDURE_TEST_STARTS"

func TestMain(m *testing.M) {
	if file := os.Getenv(starts); file != "" {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			os.Exit(9)
		}
		fmt.Fprintln(f, strings.Join(os.Args[1:], " "))
		fmt.Println("a line of a workflow")
		fmt.Println(mark + "http://127.0.0.1:4711")
		os.Exit(3)
	}
	os.Exit(m.Run())
}

// Workers that die at once are started again some times, and then no more.
//
// spec: B-16
func TestASupervisorGivesUp(t *testing.T) {
	file := filepath.Join(t.TempDir(), "starts")
	t.Setenv(starts, file)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out, log bytes.Buffer
	begun := ""
	err = Run(t.Context(), Options{
		Executable: self, Name: "perdure", Addr: "127.0.0.1:0", Out: &out, Log: &log,
		Args: func(addr string, again bool) []string {
			return []string{addr, fmt.Sprint(again)}
		},
		Begun: func(url string) { begun += url },
	})
	var e *perdure.Error
	if !errors.As(err, &e) || e.Hint == "" || !strings.Contains(err.Error(), "died at once") {
		t.Error(err)
	}
	text, err := os.ReadFile(file)
	want := "127.0.0.1:0 false\n" + strings.Repeat("127.0.0.1:4711 true\n", tries-1)
	if err != nil || string(text) != want || begun != "http://127.0.0.1:4711" {
		t.Errorf("starts are\n%s, and it has begun at %s (%v)", text, begun, err)
	}
	if n := strings.Count(out.String(), "a line of a workflow\n"); n != tries {
		t.Errorf("%d lines of workflows in %q", n, &out)
	}
	if n := strings.Count(log.String(), "takes over"); n != tries-1 {
		t.Errorf("%s", &log)
	}
}
