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

// Alert sets the rule by which each run that fails is told of, before any engine runs.
func Alert(ctx context.Context, c perdure.Caller) error {
	return alert.Set(ctx, c, alert.Default, alert.Rule{
		Causes: []alert.Cause{alert.CauseEnded}, To: []string{reached},
	}, admin.Note{})
}

// OwnRule returns a rule for one workflow, by which its runs that fail are told of, too.
func OwnRule() alert.Rule {
	return alert.Rule{Causes: alert.Causes(), To: []string{unreached, reached}}
}

var (
	causeIn = regexp.MustCompile(`(?m)^Alert (\S+) at`)
	runsIn  = regexp.MustCompile(`(?m)^\S.*, run ID (\S+)$`)
)

// Mail calls the world for each run that an alert is about. Now and then it fails after that.
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
		if _, err := e.world.Call(ctx, Call{Label: label, Run: run[1]}); err != nil {
			return err
		}
	}
	if fails {
		return errors.New("the mail server is busy")
	}
	return nil
}
