package howto

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/perdure/perdure/internal/testpg"
)

// node runs an engine; stop ends it in good order.
func node(t *testing.T, address string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Work(ctx, address) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func ask(t *testing.T, address string) {
	t.Helper()
	if out, err := Ask(t.Context(), address, "world"); out != "Hello, world" || err != nil {
		t.Error(out, err)
	}
}

func TestTheProgramRunsOnAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "greet.db")
	stop := node(t, file)
	ask(t, file)
	stop()
}

func TestTheSameProgramRunsOnManyNodes(t *testing.T) {
	url := testpg.URL(t)
	first := node(t, url)
	ask(t, url)
	second := node(t, url)
	first() // the second one goes on
	ask(t, url)
	second()
}
