package ui_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/perdure/perdure/server/ui"
)

// page returns the handler of the page.
func page(t *testing.T, prefix string) http.Handler {
	t.Helper()
	h, err := ui.New(prefix)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// ask returns the answer of the page to a request.
func ask(h http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

var asset = regexp.MustCompile(`(?:src|href)="\./([^"]+)"`)

// Everything that the first look at the page loads has at most 150 KB on the wire.
//
// spec: B-17
func TestTheFirstLoadIsSmall(t *testing.T) {
	h := page(t, "")
	first := ask(h, "/", "Accept-Encoding", "gzip")
	size, files := first.Body.Len(), 1
	for _, found := range asset.FindAllStringSubmatch(ask(h, "/").Body.String(), -1) {
		one := ask(h, "/"+found[1], "Accept-Encoding", "gzip")
		if one.Code != http.StatusOK || one.Header().Get("Content-Type") == "" {
			t.Errorf("%s: %d %v", found[1], one.Code, one.Header())
		}
		size, files = size+one.Body.Len(), files+1
	}
	t.Logf("%d bytes in %d files", size, files)
	if size > 150<<10 || files < 4 {
		t.Errorf("%d bytes in %d files", size, files)
	}
}

// Every address of a page has the page, which says where it is mounted and lets nothing in from
// elsewhere.
//
// spec: B-17
func TestEveryAddressHasThePage(t *testing.T) {
	h := page(t, "/ops")
	for _, path := range []string{"/", "/runs", "/runs/abc.js", "/workflows/a%2Fb", "/index.html"} {
		w := ask(h, path)
		text := w.Body.String()
		if w.Code != http.StatusOK || !strings.Contains(text, `<base href="/ops/" />`) ||
			w.Header().Get("Content-Security-Policy") != ui.Policy ||
			w.Header().Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %d %v\n%s", path, w.Code, w.Header(), text)
		}
		if strings.Contains(text, "<style") || strings.Contains(text, "style=") ||
			strings.Contains(text, "<script>") || strings.Contains(text, "http") {
			t.Errorf("the page has a style, a script or a foreign address in it:\n%s", text)
		}
	}
	if text := ask(page(t, `/"><b>`), "/").Body.String(); strings.Contains(text, "<b>") {
		t.Error("a prefix is not escaped")
	}
}

// spec: B-17
func TestFilesAreKeptByTheBrowser(t *testing.T) {
	h := page(t, "")
	name := asset.FindStringSubmatch(regexp.MustCompile(`(?s).*<script type="module"`).
		ReplaceAllString(ask(h, "/").Body.String(), ""))[1]
	packed := ask(h, "/"+name, "Accept-Encoding", "br, gzip;q=0.5")
	plain := ask(h, "/"+name, "Accept-Encoding", "gzip;q=0")
	if packed.Header().Get("Content-Encoding") != "gzip" || packed.Body.Len() >= plain.Body.Len() ||
		plain.Header().Get("Content-Encoding") != "" ||
		!strings.Contains(packed.Header().Get("Cache-Control"), "immutable") {
		t.Errorf("%v, %v", packed.Header(), plain.Header())
	}
	tag := packed.Header().Get("ETag")
	if tag == "" || tag == plain.Header().Get("ETag") {
		t.Errorf("the tags are %s and %s", tag, plain.Header().Get("ETag"))
	}
	again := ask(h, "/"+name, "Accept-Encoding", "gzip", "If-None-Match", tag)
	if again.Code != http.StatusNotModified || again.Body.Len() > 0 {
		t.Errorf("%d with %d bytes", again.Code, again.Body.Len())
	}
	old := ask(h, "/assets/index-of-another-version.js")
	text, _ := io.ReadAll(old.Body)
	if old.Code != http.StatusNotFound || old.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v %s", old.Code, old.Header(), text)
	}
}
