package barrier_test

import (
	"os"
	"strings"
	"testing"

	"github.com/perdure/perdure/barrier"
)

func TestTheDocumentHasTheTableAndCodeThatIsRun(t *testing.T) {
	read := func(name string) string {
		return string(must[[]byte](t)(os.ReadFile(name)))
	}
	text, code := read("../docs/barrier.md"), read("example_test.go")
	if !strings.Contains(text, "```sql\n"+barrier.DDL+";\n```") {
		t.Error("docs/barrier.md does not have the statement")
	}
	_, rest, ok := strings.Cut(text, "```go\n")
	block, _, _ := strings.Cut(rest, "```")
	if !ok || !strings.Contains(code, block) {
		t.Errorf("docs/barrier.md has lines of Go that are not in example_test.go:\n%s", block)
	}
}
