package ui_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/schedule"
	"github.com/perdure/perdure/server/auth"
)

var screenshots = flag.String("screenshots", "", "write pictures of the pages into this folder")

// axe returns axe-core, or skips the test.
func axe(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("node_modules/axe-core/axe.min.js")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("axe-core is not installed: npm ci in server/ui")
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every page can be used in both themes, on a small screen too, and by those who do not see it.
//
// spec: B-17
func TestEveryPageIsForEverybody(t *testing.T) {
	axe := axe(t)
	w := begin(t, "")
	w.finish("order", "order-1001", "DE")
	failed := w.finish("order", "order-1002", "XX")
	w.start("waiting", "delivery-7", "")
	asking := w.start("expense", "expense-ada", Expense{By: "Ada", Cents: 4200})
	w.schedule("nightly", schedule.Spec{Cron: "30 2 * * *", Zone: "Europe/Berlin"})
	w.fail("word-1")
	w.send("nobody", "hello")
	w.limit("waiting", 1)
	w.alert("waiting")
	batch := w.careFor(failed)
	talks := w.start("talker", "talk-1", "")
	letters, _, err := admin.New(w.engine).DeadLetters(t.Context(), admin.DeadLetterQuery{
		Workflow: "waiting",
	})
	if err != nil || len(letters) == 0 {
		t.Fatal(letters, err)
	}
	b := browse(w)
	for _, page := range []struct{ name, path, sees string }{
		{"overview", "", "Newest runs"},
		{"runs", "runs", "approval manager"},
		{"run-errors", "runs?group=error", "by their errors"},
		{"run-failed", "runs/" + failed, "run failed"},
		{"run-waiting", "runs/" + asking, "Ada wants money back"},
		{"workflows", "workflows", "Reserves, charges and ships"},
		{"workflow", "workflows/expense", "Who wants it"},
		{"approvals", "approvals", "Ada wants money back"},
		{"schedules", "schedules", "30 2 * * *"},
		{"schedule", "schedules/nightly", "Next times"},
		{"dead-letters", "dead-letters", "the word is bad"},
		{"dead-letter", "dead-letters/" + url.PathEscape(letters[0].ID), "Input of the run"},
		{"signals", "signals", "ready for nobody"},
		{"limits", "limits", "at a time"},
		{"alerts", "alerts", "a dead letter is new"},
		{"workers", "workers", "Last heartbeat"},
		{"doctor", "doctor", "checks are fine"},
		{"doctor-all", "doctor?all=true", "a commit survives"},
		{"batches", "batches", "2 of 2 runs"},
		{"batch", "batches/" + batch, "no run had this ID"},
		{"audit", "audit", "start-execution"},
		{"configuration", "configuration", "differs from the default"},
		{"run-attempts", "runs/" + talks + "?step=talk&stream=verses", "to be or not"},
		{"history-file", "history-file", "stays in your browser"},
		{"decide", "decide", "Which decision?"},
		{"not-found", "no/page", "There is no such page"},
	} {
		for _, theme := range []string{"light", "dark"} {
			b.theme(theme)
			b.size(1280, 900)
			b.open(page.path)
			b.sees(page.sees)
			b.audit(axe, page.path+", "+theme)
			if theme == "light" {
				b.picture(page.name)
			} else if slices.Contains([]string{"overview", "runs", "run-failed"}, page.name) {
				b.picture(page.name + "-" + theme)
			}
		}
		b.size(320, 640)
		b.until("innerWidth === 320")
		if n := b.number("document.documentElement.scrollWidth"); n > 320 {
			t.Errorf("%s: %d pixels wide on a screen of 320", page.path, n)
		}
		b.picture(page.name + "-320")
	}
}

// What opens above a page can be used by everybody, too.
//
// spec: B-17
func TestDialogsAreForEverybody(t *testing.T) {
	axe := axe(t)
	token, hash := auth.NewToken()
	w := begin(t, "", auth.Credential{Name: "oona", Role: auth.Operator, Hash: hash})
	run := w.finish("order", "order-1002", "XX")
	b := browse(w, "status of 401")
	b.size(320, 640)
	fits := func(what string) {
		t.Helper()
		for _, theme := range []string{"light", "dark"} {
			b.theme(theme)
			b.audit(axe, what+", "+theme)
			if theme == "light" {
				b.picture("dialog-" + strings.ReplaceAll(what, " ", "-") + "-320")
			}
		}
		if n := b.number("document.documentElement.scrollWidth"); n > 320 {
			t.Errorf("%s: %d pixels wide on a screen of 320", what, n)
		}
	}
	b.open("runs/" + run)
	b.sees("This server wants to know who you are")
	fits("login")
	b.fill("input[type=password]", token)
	b.click("form button", "Log in")
	b.click("[aria-label=Actions] button:not([aria-disabled])", "Skip")
	b.sees("Done again:")
	fits("action")
	b.do(chromedp.KeyEvent(kb.Escape))
	b.click("header button", "Go to")
	b.sees("Start expense")
	fits("palette")
	b.do(chromedp.KeyEvent(kb.Escape))
	b.click("header button", "Keys")
	b.sees("pause live updates")
	fits("keys")
	b.do(chromedp.KeyEvent(kb.Escape))
	b.click("[aria-label=Entries] button", "run failed")
	b.until("document.querySelector('.detail section')")
	fits("an entry")
}

// audit asks axe-core what is wrong with the page.
func (b *browser) audit(axe, where string) {
	b.t.Helper()
	if !value(b, chromedp.Evaluate[bool]("'axe' in window")) {
		b.script(axe)
	}
	text := value(b, chromedp.Evaluate[string](
		"axe.run(document, {resultTypes: ['violations']}).then(r => JSON.stringify(r.violations))",
		chromedp.EvalAwaitPromise))
	var found []struct {
		ID, Impact, Help string
		Nodes            []struct{ HTML, FailureSummary string }
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		b.t.Fatal(err)
	}
	for _, f := range found {
		b.t.Errorf("%s: %s (%s): %s\n%s", where, f.ID, f.Impact, f.Help,
			fmt.Sprint(f.Nodes[:min(len(f.Nodes), 3)]))
	}
}

// picture writes what the page looks like, if that is wanted, in a file of at most 256 colours.
func (b *browser) picture(name string) {
	b.t.Helper()
	if *screenshots == "" || strings.HasPrefix(name, "-") || name == "" {
		return
	}
	pixels, err := png.Decode(bytes.NewReader(value(b, chromedp.CaptureScreenshot())))
	if err != nil {
		b.t.Fatal(err)
	}
	var small bytes.Buffer
	best := png.Encoder{CompressionLevel: png.BestCompression}
	if err := best.Encode(&small, fewColours(pixels)); err != nil {
		b.t.Fatal(err)
	}
	err = os.WriteFile(filepath.Join(*screenshots, name+".png"), small.Bytes(), 0o644)
	if err != nil {
		b.t.Fatal(err)
	}
}

// fewColours returns a picture with a palette. It rounds colours as little as that needs.
func fewColours(of image.Image) image.Image {
	for step := 1; ; step *= 2 {
		round := func(v uint32) uint8 { return uint8(min(255, (int(v>>8)+step/2)/step*step)) }
		to := image.NewPaletted(of.Bounds(), nil)
		known := map[color.RGBA]uint8{}
		fits := true
		for y := of.Bounds().Min.Y; fits && y < of.Bounds().Max.Y; y++ {
			for x := of.Bounds().Min.X; fits && x < of.Bounds().Max.X; x++ {
				r, g, b, _ := of.At(x, y).RGBA()
				c := color.RGBA{round(r), round(g), round(b), 255}
				at, ok := known[c]
				if !ok {
					fits = len(to.Palette) < 256
					at = uint8(len(to.Palette))
					known[c] = at
					to.Palette = append(to.Palette, c)
				}
				to.SetColorIndex(x, y, at)
			}
		}
		if fits {
			return to
		}
	}
}
