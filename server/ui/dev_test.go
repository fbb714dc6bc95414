package ui_test

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// devEnv names the variable with which the test binary is the command perdure.
const devEnv = "PERDURE_TEST_DEV"

// dev begins perdure dev, as a person does. Its page is the world.
func dev(t *testing.T) *world {
	t.Helper()
	chromium(t)
	cmd := exec.Command(os.Args[0])
	cmd.Args = []string{"perdure", "dev", "--addr", "127.0.0.1:0", "--dir", t.TempDir()}
	cmd.Env = append(os.Environ(), devEnv+"=yes")
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // Wait returns how it ended
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url = strings.TrimSpace(url)
	return &world{t: t, address: strings.TrimPrefix(url, "http://"), url: url + "/"}
}

// Within a minute a new user approves something, kills the worker of a run, sees that the run goes
// on to its end, with each finished step kept, and starts a run.
//
// spec: B-16, B-17
func TestTheFirstMinuteOfDev(t *testing.T) {
	w := dev(t)
	b := browse(w, "net::ERR_", "Failed to load resource")
	b.open("")
	b.sees("Ada wants back 42.00")
	b.picture("dev-first")
	b.click(".try a.button", "Decide")
	b.click("article[aria-label^=Ada] button", "Approve")
	b.sees("You have approved “Ada wants back 42.00”")
	b.until("!document.querySelector('article[aria-label^=Ada]')")

	w.post("workflows/statements/start",
		`{"id":"statements-test","input":{"month":"2026-01","accounts":40,"millis":250}}`)
	b.open("runs/statements-test")
	b.sees("write[acc-006]")
	b.click("button", "Kill the worker")
	b.sees("with SIGKILL")
	b.picture("dev-kill")
	b.click("dialog button", "Kill it")
	b.sees("is dead")
	b.sees("has taken over")
	b.until("document.querySelector('#takeover a[href*=runs]')")
	b.sees("The worker was killed once, and the run goes on")
	b.sees("1 step begun again")
	b.picture("dev-killed")
	b.sees("It has ended well.")
	b.sees("and the run went on")
	// The steps before the death and those after it are all there are, each once.
	kept := b.number(`Number(document.body.innerText.match(/(\d+) steps kept/)[1])`)
	since := b.number(`Number(document.body.innerText.match(/(\d+) steps done since/)[1])`)
	if kept+1+since != 40 || kept < 5 {
		t.Errorf("%d steps kept, one begun again, %d done since: want 40", kept, since)
	}
	b.sees("40 statements of 2026-01")
	b.picture("dev-end")

	b.open("")
	b.click(".try a.button", "Order something")
	b.sees("The carrier does not go to XX")
	b.size(320, 640)
	for _, page := range []string{"", "runs/statements-test"} {
		b.open(page)
		b.sees("statements")
		b.until("document.querySelector('main h1')")
		b.until("innerWidth === 320")
		if n := b.number("document.documentElement.scrollWidth"); n > 320 {
			t.Errorf("%q: %d pixels wide on a screen of 320", page, n)
		}
		b.picture("dev-320-" + strings.ReplaceAll(page, "/", "-"))
	}
}

// What the page of dev has more than others can be used by everybody.
//
// spec: B-17
func TestTheFirstMinuteIsForEverybody(t *testing.T) {
	axe := axe(t)
	w := dev(t)
	b := browse(w, "net::ERR_", "Failed to load resource")
	look := func(what string) {
		t.Helper()
		for _, theme := range []string{"light", "dark"} {
			b.theme(theme)
			b.audit(axe, what+", "+theme)
			b.picture("dev-" + theme + "-" + strings.ReplaceAll(what, " ", "-"))
		}
		if n := b.number("document.documentElement.scrollWidth"); n > 320 {
			t.Errorf("%s: %d pixels wide on a screen of 320", what, n)
		}
	}
	b.size(320, 640)
	b.open("")
	b.sees("statements-2026-11 runs now")
	look("the first page")
	b.click(".try button", "Kill the worker")
	b.sees("with SIGKILL")
	look("the dialog")
	b.click("dialog button", "Kill it")
	b.sees("has taken over")
	look("the bar")
	b.click("#takeover a", "statements-2026-11")
	b.sees("begun again")
	look("the run")
}
