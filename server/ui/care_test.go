package ui_test

import (
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/batch"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/rules"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/server"
	"github.com/perdure/perdure/server/auth"
	"github.com/perdure/perdure/store"
)

// configuration is that of the server of a world.
var configuration = []server.ConfigurationKey{
	{Name: "store", Value: "shop.db", Default: "shop.db", From: "default"},
	{
		Name: "doctor.stale", Value: "2h", Default: "1h", From: "/etc/shop.yaml:4", IsChanged: true,
		Variable: "PERDURE_DOCTOR_STALE", About: "after how long a busy run counts as stale",
	},
	{Name: "alerts.secret", Value: "[set]", From: "PERDURE_ALERT_SECRET", IsChanged: true},
}

// batch starts a batch, and returns its ID.
func (w *world) batch(s batch.Spec) string {
	w.t.Helper()
	b, err := batch.Start(w.t.Context(), w.engine, s)
	if err != nil {
		w.t.Fatal(err)
	}
	return b.ID
}

// careFor brings about something to look at on each page of operations: a run that is suspended, a
// loop that has stopped, an act, and a batch that could not cancel a run that has ended. It returns
// the ID of the batch.
func (w *world) careFor(run string) string {
	w.t.Helper()
	w.start("waiting", "parked-1", "")
	w.suspend("parked-1")
	w.stopLoop("watch")
	w.post("workflows/waiting/start", `{"id":"started-1"}`)
	return w.batch(batch.Spec{
		Runs:  []string{run, "nobody"},
		Order: admin.Order{Action: journal.ActionRetry, By: "ada", Reason: "the carrier is back"},
	})
}

func (w *world) suspend(id string) {
	w.t.Helper()
	w.post("executions/"+id+"/suspend", `{"reason":"wait"}`)
}

// stopLoop lets the store say that a loop of the engine has stopped.
func (w *world) stopLoop(name string) {
	w.t.Helper()
	if err := kernel.PutSetting(w.t.Context(), w.engine.Sealed().FrontEnd, "stop", store.Setting{
		Kind: rules.LoopSetting, Name: rules.Loop(1, name), Value: []byte("{}"), By: "engine",
		Reason: "panic: no disk",
	}); err != nil {
		w.t.Fatal(err)
	}
}

// The overview has a link if something is not in order. The doctor shows what, and mends it: a
// loop, a pause, and runs, one or all of them.
//
// spec: B-17, R-35
func TestTheDoctorMends(t *testing.T) {
	w := begin(t, "")
	for _, id := range []string{"w1", "w2", "w3"} {
		w.start("waiting", id, "")
		w.suspend(id)
	}
	b := browse(w)
	b.open("")
	b.sees("One check needs a look: parked")
	w.stopLoop("retention")
	if err := admin.New(w.engine).PauseWorkflow(t.Context(), "order", admin.Note{}); err != nil {
		t.Fatal(err)
	}
	b.open("")
	b.click(".health a", "One check has failed")
	b.sees("panic: no disk")
	b.until("document.querySelector('article').innerText.includes('loops')") // the worst is first
	b.sees("perdure doctor start 1 retention")
	b.click("table button", "Start")
	b.sees("The engine begins the loop again, soon")
	b.click("dialog form button", "Start")
	b.until("!document.body.innerText.includes('panic: no disk')")

	b.click("[aria-label='Found by pauses'] button", "Resume")
	b.click("dialog form button", "Resume")
	b.until("!document.querySelector('[aria-label=pauses]')")

	b.click("[aria-label='Found by parked'] button", "Resume w1")
	b.click("dialog form button", "Resume")
	b.until("!document.querySelector('[aria-label=\"Resume w1\"]')")
	b.click("article button", "Cancel all")
	b.sees("2 runs will be cancelled")
	b.click("dialog form button", "Do nothing")
	b.click("article button", "Terminate all")
	b.sees("2 runs will be terminated")
	b.click("dialog form button", "Terminate")
	b.until("!document.querySelector('[aria-label=parked]')")
	b.sees("2 of 2 runs: 2 done") // the dialog stays when its check is well
	b.click("dialog [role=status] a", "")
	b.sees("Reason: “from the dashboard”")

	b.click("nav a", "Doctor")
	b.sees("all is well")
}

// What is good is folded, and an address shows it.
//
// spec: B-17, R-35
func TestGoodChecksAreFolded(t *testing.T) {
	b := browse(begin(t, ""))
	b.open("doctor")
	b.sees("all is well")
	b.sees("17 checks are fine")
	b.until("!document.querySelector('article')")
	b.click("button", "17 checks are fine")
	b.until("location.search === '?all=true'")
	b.sees("a commit survives")
	b.until("document.querySelectorAll('article').length === 17")
	b.until("document.querySelectorAll('table tbody tr').length >= 4")
}

// spec: B-17
func TestABatchIsFollowedAndStopped(t *testing.T) {
	w := begin(t, "")
	b := browse(w)
	b.open("batches")
	b.sees("There are no batches yet")
	var ids []string
	for _, id := range []string{"w1", "w2", "w3"} {
		w.start("waiting", id, "")
		ids = append(ids, id)
	}
	order := admin.Order{Action: journal.ActionCancel, By: "ada", Reason: "the bank is down"}
	w.batch(batch.Spec{Runs: []string{ids[0], "nobody"}, Order: order})
	b.sees("2 of 2 runs: 1 done, 1 failed")
	b.click("td a", "cancel of 2 runs")
	b.sees("no run had this ID")
	b.sees("Reason: “the bank is down”")
	b.click("button[aria-disabled]", "Stop")
	b.sees("Stop: the batch has ended.")

	w.batch(batch.Spec{Filter: "workflow=waiting", Order: order, Rate: 0.001})
	b.open("batches?open=true")
	b.click("td a", "cancel of runs with")
	b.sees("1 of 2 runs: 1 done")
	b.click("button:not([aria-disabled])", "Stop")
	b.fill("dialog input", "enough")
	b.click("dialog form button", "Stop")
	b.sees("“enough”")
	b.sees("The runs that it has not come to stay as they are.")
	b.open("batches")
	b.until("document.querySelectorAll('tbody tr').length === 2")
	b.click("label", "only those that go on")
	b.until("document.querySelectorAll('tbody tr').length === 0")
}

// spec: B-17, B-18
func TestTheAuditShowsWhoHasAskedForWhat(t *testing.T) {
	var tokens []auth.Credential
	secret := map[string]string{}
	for name, role := range map[string]auth.Role{"ada": auth.Admin, "oskar": auth.Operator} {
		token, hash := auth.NewToken()
		secret[name] = token
		tokens = append(tokens, auth.Credential{Name: name, Role: role, Hash: hash})
	}
	b := browse(begin(t, "", tokens...), "status of 401", "status of 403")
	b.open("audit")
	b.fill("input[type=password]", secret["oskar"])
	b.click("form button", "Log in")
	b.sees("this needs the role admin")
	b.click("header button", "Log out oskar")
	b.fill("input[type=password]", secret["ada"])
	b.click("form button", "Log in")
	b.sees("Acts that this process was asked for")
	b.until("document.querySelectorAll('tbody tr').length === 3")
	b.click("td button", "end-session")
	b.until("location.search === '?action=end-session'")
	b.until("document.querySelectorAll('tbody tr').length === 1")
	b.sees("oskar")
	b.fill("input[aria-label=Who]", "ada"+kb.Enter)
	b.sees("No act meets these conditions.")
	b.click("button", "Clear")
	b.until("document.querySelectorAll('tbody tr').length === 3")
}

// spec: B-17, R-35
func TestTheConfigurationAndTheBrowsersSettings(t *testing.T) {
	w := begin(t, "")
	b := browse(w)
	b.open("configuration")
	b.sees("nothing endangers data")
	b.sees("/etc/shop.yaml:4")
	b.until("document.querySelectorAll('#configuration, tr.changed').length === 3")
	b.click("section label", "only what differs from the default")
	b.until("!document.body.innerText.includes('shop.db')")
	b.script("{ const s = document.querySelector('select'); s.value = 'dark'; " +
		"s.dispatchEvent(new Event('change', {bubbles: true})) }")
	b.until("document.documentElement.dataset.theme === 'dark'")
	b.click("section label", "Hide payloads")

	b.open("runs/" + w.start("expense", "e1", Expense{By: "Ada", Cents: 4200}))
	b.until("document.documentElement.dataset.theme === 'dark'")
	b.sees("Hidden, as this browser is set.")
	b.until("!document.body.innerText.includes('4200')")
	b.click("button", "Show Input")
	b.sees("4200")
}
