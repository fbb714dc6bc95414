package serving

import (
	"encoding/json"
	"log/slog"
	"os"
	"sync"

	"github.com/perdure/perdure/server"
)

// An auditFile is a file to which actions are added, one JSON object a line.
type auditFile struct {
	mu   sync.Mutex
	file *os.File
	log  *slog.Logger
}

func openAudit(path string, log *slog.Logger) (*auditFile, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return &auditFile{file: f, log: log}, err
}

// add adds an action, which is durable on return. If it cannot, the error and the action are in the
// log: the action is done, so its answer must not say that it has failed.
func (a *auditFile) add(act server.Act) {
	line, err := json.Marshal(act)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		_, err = a.file.Write(append(line, '\n'))
	}
	if err == nil {
		err = a.file.Sync()
	}
	if err != nil {
		a.log.Error("perdure: the audit cannot be written", "error", err, "by", act.By,
			"action", act.Action, "path", act.Path, "status", act.Status)
	}
}
