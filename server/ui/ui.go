// Package ui is the dashboard: the page on which people look at runs and act on them. Its files are
// built from src and committed in dist, so that a program has them without Node. It uses the API of
// package server at the same address and nothing else, and is set as server.Options.Page.
package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:embed dist
var built embed.FS

// Policy is the Content-Security-Policy of the page.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
	"img-src 'self' data:; font-src 'none'; frame-ancestors 'none'; base-uri 'self'; " +
	"form-action 'self'"

// index is the file that answers every address of a page; base is where it says what the
// addresses in it begin with.
const (
	index = "index.html"
	base  = `<base href="/" />`
)

// New returns the handler of the page. The prefix is the path under which the server is mounted,
// such as /ops, or empty: requests come without it, see [http.StripPrefix].
func New(prefix string) (http.Handler, error) {
	page := handler{}
	err := fs.WalkDir(built, "dist", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := built.ReadFile(name)
		name = strings.TrimPrefix(name, "dist/")
		if name == index {
			own := `<base href="` + html.EscapeString(prefix) + `/" />`
			text = bytes.Replace(text, []byte(base), []byte(own), 1)
		}
		page[name] = newFile(name, text)
		return err
	})
	return page, err
}

// A handler has the files, by their names.
type handler map[string]*file

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	f := h[name]
	if f == nil && strings.HasPrefix(name, "assets/") { // of another version
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, "there is no such file", http.StatusNotFound)
		return
	}
	if f == nil {
		f = h[index]
	}
	f.serve(w, r)
}

// A file is one file of the page, as it is sent.
type file struct {
	kind, tag, cache string
	plain, packed    []byte // packed is empty if that is not smaller
}

// kinds are the media types by the ends of names: those of the system may differ.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}

func newFile(name string, text []byte) *file {
	f := &file{kind: kinds[path.Ext(name)], plain: text, cache: "no-cache"}
	if strings.HasPrefix(name, "assets/") { // its name has a hash of it
		f.cache = "public, max-age=31536000, immutable"
	}
	sum := sha256.Sum256(text)
	f.tag = base64.RawURLEncoding.EncodeToString(sum[:12])
	var packed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // the level is valid
	_, _ = z.Write(text)                                       // it is in memory
	_ = z.Close()
	if packed.Len() < len(text) {
		f.packed = packed.Bytes()
	}
	return f
}

func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", Policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", f.cache)
	h.Set("Content-Type", f.kind)
	h.Set("Vary", "Accept-Encoding")
	text, tag := f.plain, `"`+f.tag+`"`
	if len(f.packed) > 0 && takesGzip(r) {
		text, tag = f.packed, `"`+f.tag+`-gz"`
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if r.Method != http.MethodHead {
		_, _ = w.Write(text) // the caller may be gone
	}
}

// takesGzip reports whether the caller of a request takes an answer that is compressed.
func takesGzip(r *http.Request) bool {
	for one := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, how, _ := strings.Cut(strings.TrimSpace(one), ";")
		how = strings.ReplaceAll(how, " ", "")
		if name == "gzip" && how != "q=0" && how != "q=0.0" && how != "q=0.00" && how != "q=0.000" {
			return true
		}
	}
	return false
}
