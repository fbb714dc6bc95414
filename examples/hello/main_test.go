package main

import (
	"log"
	"os"
	"strings"
	"testing"
)

func TestHello(t *testing.T) {
	t.Chdir(t.TempDir())
	var out strings.Builder
	log.SetOutput(&out)
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	main()
	if !strings.Contains(out.String(), "Hello, world!") {
		t.Errorf("it says %q", out.String())
	}
}
