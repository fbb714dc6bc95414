package present

import (
	"time"

	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/report"
)

// Report returns the form of a report.
func Report(r report.Run) api.Report {
	out := api.Report{
		Workflow: r.Name, RunID: r.RunID, WorkflowID: r.WorkflowID, Pattern: r.Pattern.String(),
		Status: r.Status.String(), TriggeredBy: r.TriggeredBy, DryRun: r.DryRun,
		Started: utc(r.Started), Ended: utc(r.Ended), TookMS: millis(r.Duration),
		Layers: r.Layers, Phase: r.Phase, Error: text(r.Err), Successor: r.Successor,
	}
	out.Steps = []api.ReportStep{}
	for _, s := range r.Steps {
		out.Steps = append(out.Steps, api.ReportStep{
			Step: s.ID, Status: string(s.Status), Attempts: s.Attempts, Started: utc(s.Started),
			Ended: utc(s.Ended), TookMS: millis(s.Latency), Error: text(s.Err),
		})
	}
	return out
}

func utc(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC()
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
