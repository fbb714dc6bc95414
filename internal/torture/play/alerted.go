package play

import (
	"context"
	"errors"
	"regexp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/alert"
)

// Alerted precedes the cause of an alert and the run ID in the label of a call that tells of a run.
const Alerted = "alerted/"

// The recipients of alerts: one that is reached in the end, and one that never is.
const (
	reached   = "mailto:reached@example.com"
	unreached = "mailto:unreached@example.com"
)

// Fails is the name of a workflow whose runs fail.
const Fails = "failing"

// Alert sets the rules before any engine runs: each run that fails is told of, but for those of
// [Thresholds].
func Alert(ctx context.Context, c perdure.Caller) error {
	if err := countBy(ctx, c); err != nil {
		return err
	}
	return alert.Set(ctx, c, alert.Default, counting(alert.Rule{}), admin.Note{})
}

// OwnRule returns a rule for one workflow, by which its runs that fail are told of, too.
func OwnRule() alert.Rule {
	return alert.Rule{Causes: alert.Causes(), To: []string{unreached, reached}}
}

var (
	causeIn = regexp.MustCompile(`(?m)^Alert (\S+) at`)
	runsIn  = regexp.MustCompile(`(?m)^\S.*, run ID (\S+)$`)
)

// Mail calls the world for each run that an alert is about; the step of the call is the ID of the
// alert. Now and then it fails after that.
func (e *Env) Mail(ctx context.Context, m alert.Mail) error {
	if "mailto:"+m.Address == unreached {
		return perdure.Permanent(errors.New("nobody has this address"))
	}
	e.mu.Lock()
	e.mails++
	fails := e.mails%60 == 0
	e.mu.Unlock()
	for _, run := range runsIn.FindAllStringSubmatch(m.Text, -1) {
		label := Alerted + causeIn.FindStringSubmatch(m.Text)[1] + "/" + run[1]
		if _, err := e.world.Call(ctx, Call{Label: label, Run: run[1], Step: m.ID}); err != nil {
			return err
		}
	}
	if fails {
		return errors.New("the mail server is busy")
	}
	return nil
}
