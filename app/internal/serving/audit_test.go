package serving

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure/server"
)

// spec: P-10, B-18
func TestAnActIsInTheFileOrInTheLog(t *testing.T) {
	var log bytes.Buffer
	path := filepath.Join(t.TempDir(), "audit")
	a, err := openAudit(path, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	a.add(server.Act{By: "ada", Action: "rotate-key", Status: 200})
	var got server.Act
	text, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(text, &got) != nil || got.By != "ada" || got.Status != 200 ||
		log.Len() > 0 {
		t.Errorf("%s, %v, %s", text, err, &log)
	}
	a.file.Close()
	a.add(server.Act{By: "oskar", Action: "cancel-execution", Status: 404})
	for _, part := range []string{"cannot be written", "oskar", "cancel-execution", "404"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log has no %q: %s", part, &log)
		}
	}
}
