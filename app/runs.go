package app

import "github.com/spf13/cobra"

func (p *program) newRuns() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List, show and control runs",
		Long: `These commands use the database directly: an engine may run on it meanwhile, and none
need run.

ID is a run ID, a workflow ID or @latest. A workflow ID stands for its open run, or for
its newest run if none is open. @latest is the run that was started last.`,
		Example: `  perdure runs list --status failed,suspended
  perdure runs get ord-1001
  perdure runs watch @latest`,
	}
	db := p.database(cmd)
	return group(cmd, newRunsList(db), newRunsGet(db), newRunsDescribe(db), newRunsHistory(db),
		newRunsExport(db), newRunsLogs(db), newRunsStream(db),
		newRunsWatch(db), newRunsWait(db), newRunsSignal(db), newRunsUpdate(db),
		newRunsDecide(db),
		newRunsCancel(db), newRunsSuspend(db), newRunsResume(db), newRunsRetry(db),
		newRunsSkip(db), newRunsFork(db), newRunsCompensate(db), newRunsTerminate(db))
}
