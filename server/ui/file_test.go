package ui_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// A history that was downloaded is opened again, also where nobody knows its run.
//
// spec: B-17
func TestAHistoryIsOpenedFromAFile(t *testing.T) {
	w := begin(t, "")
	run := w.finish("order", "o1", "XX")
	b := browse(w)
	b.open("runs/" + run)
	b.until("document.querySelector('#history-title + span').innerText !== '0 entries'")
	b.script("URL.createObjectURL = blob => { blob.text().then(t => window.saved = t); " +
		"return '#' }")
	b.click("button", "download")
	b.until("window.saved")
	saved := value(b, chromedp.Evaluate[string]("window.saved"))
	entries := strings.Count(saved, "\n")
	open := func(text string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "history.jsonl")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		b.do(chromedp.SetUploadFiles(chromedp.CSS("input[type=file]"), []string{file}))
	}
	b.click("a", "open a file")
	b.sees("The file stays in your browser.")
	open(saved)
	b.sees("o1")
	b.sees(run)
	b.sees(fmt.Sprint(entries, " entries"))
	b.sees("step failed")
	first, rest, _ := strings.Cut(saved, "\n")
	lines := strings.Split(strings.TrimSpace(rest), "\n")
	slices.Reverse(lines)
	open("[" + strings.Join(lines, ",") + "]")
	b.sees(fmt.Sprint(entries-1, " entries"))
	open(first + "\n{")
	b.sees("history.jsonl: Line 2 is not JSON.")
	b.until("!document.querySelector('#history-title')")
	open(`{"seq":1}`)
	b.sees("Value 1 is no entry of a history")
	open(saved + saved)
	b.sees("Entry 1 is there twice")
	open("\n")
	b.sees("The file is empty.")
}
