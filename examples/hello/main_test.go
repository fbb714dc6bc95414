package main

import (
	"log"
	"os"
	"strings"
	"testing"
)

// folder is the directory in which main makes its file. The engine of main ends with the
// process, and has the file open until then.
var folder string

func TestMain(m *testing.M) {
	var err error
	if folder, err = os.MkdirTemp("", "hello"); err != nil {
		log.Fatalln(err)
	}
	code := m.Run()
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

func TestHello(t *testing.T) {
	t.Chdir(folder)
	var out strings.Builder
	log.SetOutput(&out)
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	main()
	if !strings.Contains(out.String(), "Hello, world!") {
		t.Errorf("it says %q", out.String())
	}
}
