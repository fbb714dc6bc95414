package ui_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/perdure/perdure/internal/testserver"
)

// patience is how long a test waits for something in the page.
const patience = 2 * time.Minute

// A browser is a tab of Chromium that shows the page of a world.
type browser struct {
	*world
	ctx context.Context

	mu       sync.Mutex
	problems []string // errors in the console, and requests to other hosts
	expected []string // parts of problems that the test brings about
}

// program returns the path of Chromium.
func program() (at string, err error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if at, err = exec.LookPath(name); err == nil {
			return at, nil
		}
	}
	return "", err
}

// chromium skips the test where there can be no browser: without the program, among the short
// ones, and where no server can be found.
func chromium(t testing.TB) {
	t.Helper()
	if testing.Short() || os.Getenv(testserver.Env) == testserver.None {
		t.Skip("tests in a browser take minutes")
	}
	if _, err := program(); err != nil {
		t.Skip("there is no Chromium on this machine: apt-get install chromium")
	}
}

// unwanted are features that cost time: chromedp turns off the first two, and the third starts a
// process for a page that nobody opens.
const unwanted = "Translate,BlinkGenPropertyTrees,SpareRendererForSitePerProcess"

// process starts the Chromium of this test binary, which all its tests share. Its context holds it.
// TestMain ends it. If the binary dies before, the system kills it.
var process = sync.OnceValues(func() (context.Context, error) {
	at, err := program()
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(at),
		chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-features", unwanted))
	ctx, _ := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, endProcess = chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {}))
	return ctx, chromedp.Do(ctx)
})

// endProcess ends the Chromium of this test binary, if there is one.
var endProcess = func() {}

// browse opens a tab. It has its own cookies and storage and its own connections, as if no other
// test had a browser, and it is closed when the test ends. At the end of the test it has had no
// problem that the test did not expect.
func browse(w *world, expected ...string) *browser {
	t := w.t
	t.Helper()
	chromium(t)
	chrome, err := process()
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{world: w, expected: expected}
	ctx, end := chromedp.NewContext(chrome, chromedp.WithNewBrowserContext(),
		chromedp.WithListener(b.hear))
	t.Cleanup(end)
	b.ctx = ctx
	if _, err := chromedp.Call(ctx, log.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	b.size(1280, 900)
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, p := range b.problems {
			t.Error("in the page:", p)
		}
	})
	return b
}

// hear notes what must not happen.
func (b *browser) hear(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.note(fmt.Sprintf("exception: %+v", *e.ExceptionDetails))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError ||
			e.Type == runtime.ConsoleAPICalledTypeWarning {
			b.note(fmt.Sprintf("console: %s", e.Args[0].Value))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError ||
			e.Entry.Level == log.EntryLevelWarning {
			b.note("log: " + e.Entry.Text + " " + e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		at, err := url.Parse(e.Request.URL)
		if err != nil || at.Host != b.address && at.Scheme != "data" && at.Scheme != "blob" &&
			at.Scheme != "about" {
			b.note("a request to another host: " + e.Request.URL)
		}
	}
}

func (b *browser) note(problem string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, part := range b.expected {
		if strings.Contains(problem, part) {
			return
		}
	}
	b.problems = append(b.problems, problem)
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// value returns what an action or an expression gives.
func value[T any](b *browser, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// call sends the browser a command.
func call[P any](b *browser, command cdp.Command[P, cdp.Empty], parameters P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, command, parameters); err != nil {
		b.t.Fatal(err)
	}
}

// open goes to an address below the prefix, as if it were typed.
func (b *browser) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.url + path))
}

// size sets the size of the window.
func (b *browser) size(width, height int64) {
	b.t.Helper()
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1,
	})
}

// theme sets the theme of the system.
func (b *browser) theme(name string) {
	b.t.Helper()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
}

// until waits until an expression is true in the page. The policy of the page forbids what
// chromedp does for that.
func (b *browser) until(expression string) {
	b.t.Helper()
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		is, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if err == nil && is {
			return
		}
		select {
		case <-tick.C:
		case <-late.C:
			text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string](
				"location.href + '\\n' + document.body.innerText"))
			b.t.Fatalf("in vain for %s (%v): %v in\n%s", expression, err, is, text)
		}
	}
}

// sees waits until the page has a text, whatever its spaces.
func (b *browser) sees(text string) {
	b.t.Helper()
	b.until("document.body.innerText.replace(/\\s+/g, ' ').includes(" + strconv.Quote(text) + ")")
}

// click clicks the first visible element that a selector selects and whose text or label has a
// part.
func (b *browser) click(selector, part string) {
	b.t.Helper()
	find := "[...document.querySelectorAll(" + strconv.Quote(selector) + ")].find(e => " +
		"e.checkVisibility() && !e.disabled && " +
		"(e.innerText + ' ' + (e.ariaLabel ?? '')).includes(" + strconv.Quote(part) + "))"
	b.until(find)
	b.script(find + ".click()")
}

// fill types a text into the field that a selector selects.
func (b *browser) fill(selector, text string) {
	b.t.Helper()
	b.do(chromedp.WaitVisible(chromedp.CSS(selector)))
	b.script("document.querySelector(" + strconv.Quote(selector) + ").value = ''")
	b.do(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// script carries out a statement in the page.
func (b *browser) script(text string) {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](text))
}

// number returns the value of an expression.
func (b *browser) number(expression string) int {
	b.t.Helper()
	return int(value(b, chromedp.Evaluate[float64](expression)))
}
