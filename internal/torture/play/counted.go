package play

import (
	"context"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/alert"
)

// The workflows whose rules of alerts have thresholds.
const (
	InARow  = "in-a-row"
	Often   = "often"   // within a time in which all of its runs end
	Briefly = "briefly" // within a time in which some of its runs end
)

// Thresholds are the rules of these workflows.
var Thresholds = map[string]alert.Rule{
	InARow:  counting(alert.Rule{InARow: 3}),
	Often:   counting(alert.Rule{Times: 4, Within: 24 * time.Hour}),
	Briefly: counting(alert.Rule{Times: 3, Within: time.Second}),
}

func counting(r alert.Rule) alert.Rule {
	r.Causes, r.To = []alert.Cause{alert.CauseEnded}, []string{reached}
	return r
}

// countBy sets the rules with thresholds.
func countBy(ctx context.Context, c perdure.Caller) error {
	for name, r := range Thresholds {
		if err := alert.Set(ctx, c, name, r, admin.Note{}); err != nil {
			return err
		}
	}
	return nil
}

// Counted is the input of a run of these workflows: an effect, and whether it fails after that.
type Counted struct {
	Label string
	Fails bool
}

func (e *Env) defineCounted() (all []perdure.Definition) {
	for name := range Thresholds {
		all = append(all, perdure.Define(name, func(ctx context.Context, in Counted) (int, error) {
			_, err := perdure.Step(ctx, "do", e.effect(in.Label), brisk)
			if err == nil && in.Fails {
				err = perdure.Permanent(ErrMeant)
			}
			return 0, err
		}, keep))
	}
	return all
}
