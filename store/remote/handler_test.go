package remote

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// statusFor returns the status and the error of the answer to a request.
func statusFor(
	t *testing.T, h http.Handler, method, path, body string, header ...string,
) (int, error) {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", mediaType)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var a answer[nothing]
	if err := decode(w.Body.Bytes(), &a, maxRoom); err != nil && w.Code != http.StatusOK {
		t.Errorf("%s %s: the answer %d cannot be read: %v\n%s", method, path, w.Code, err, w.Body)
	}
	return w.Code, a.Err
}

// spec: B-16
func TestBadRequestsAreRefusedAndWriteNothing(t *testing.T) {
	s := memory.New()
	h := Handler(s, HandlerOptions{Allow: everything, MaxBody: 4096})
	const commit, post = Path + "v1/commit", http.MethodPost
	engine := `{"Engine":1,"Changes":[]}`
	for _, c := range []struct {
		method, path, body string
		status             int
		header             []string
	}{
		{post, commit, ``, 400, nil},
		{post, commit, `{`, 400, nil},
		{post, commit, `{}{}`, 400, nil},
		{post, commit, `{} x`, 400, nil},
		{post, commit, "\xef\xbb\xbf{}", 400, nil},
		{post, commit, `{"Tenant":"*"}`, 400, nil},
		{post, commit, `{"changes":[]}`, 400, nil},
		{post, commit, `{"Again":true,"Again":true}`, 400, nil},
		{post, commit, `{"Changes":"none"}`, 400, nil},
		{post, commit, strings.Repeat("[", 1000), 400, nil},
		{post, commit, strings.Repeat(" ", 4096) + `{}`, 413, nil},
		{post, commit, `{}`, 415, []string{"Content-Type", "text/plain"}},
		{post, commit, `{}`, 415, []string{"Content-Type", ""}},
		{post, commit, `{}`, 415, []string{"Content-Type", "application/json; charset=utf-7"}},
		{post, commit, `{}`, 415, []string{"Content-Encoding", "gzip"}},
		{post, commit, `{}`, 200, []string{"Content-Type", "application/json; charset=UTF-8"}},
		{http.MethodGet, commit, ``, 405, nil},
		{http.MethodPut, commit, `{}`, 405, nil},
		{http.MethodOptions, commit, ``, 405, nil},
		{http.MethodGet, commit, ``, 405, []string{"X-HTTP-Method-Override", "POST"}},
		{post, Path + "v1/drop", `{}`, 404, nil},
		{post, Path + "v1/Commit", `{}`, 404, nil},
		{post, Path + "v1/", `{}`, 404, nil},
		{post, Path + "v1/commit/", `{}`, 404, nil},
		{post, Path + "commit", `{}`, 404, nil},
		{post, Path + "v1/join", `{}`, 404, nil},
		{post, Path + "v1/spill", `{}`, 404, nil},
		{post, Path + "v1/claim", `{}`, 404, nil},
		{post, commit, engine, 403, nil},
		{post, Path + "v1/purge", `{"Engine":1}`, 403, nil},
		{post, commit, `{"Changes":[{"Posts":[{}]}]}`, 422, nil},
		{post, commit, `{"Changes":[{"Run":5,"Entries":[{"Run":5,"Seq":2}]}]}`, 422, nil},
		{post, commit, `{"Changes":[{"Told":[1]}]}`, 422, nil},
	} {
		got, err := statusFor(t, h, c.method, c.path, c.body, c.header...)
		var data *store.DataError
		if got != c.status || got != 200 && err == nil || errors.As(err, &data) != (got == 422) {
			t.Errorf("%s %s %.40q %q: %d, want %d: %v", c.method, c.path, c.body, c.header, got,
				c.status, err)
		}
	}
	info, err := s.Info(t.Context())
	if err != nil || info.Runs != 0 || info.Unrouted != 0 || len(info.Engines) != 0 {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestAnotherVersionSaysWhichSideIsOlder(t *testing.T) {
	h := Handler(memory.New(), HandlerOptions{Allow: everything})
	for path, older := range map[string]string{"v2": "server", "v0": "client"} {
		status, err := statusFor(t, h, http.MethodPost, Path+path+"/brief", `{}`)
		if status != 404 || journal.CodeOf(err) != journal.CodeUnavailable ||
			!strings.Contains(err.Error(), "the "+older+" is older") {
			t.Errorf("%s: %d, %v", path, status, err)
		}
	}
}

func TestTheHandlerIsMountedAnywhere(t *testing.T) {
	h := Handler(memory.New(), HandlerOptions{Allow: everything})
	for _, path := range []string{Path + "v1/brief", "/v1/brief", "/a/b/v1/brief"} {
		if status, err := statusFor(t, h, http.MethodPost, path, `{}`); status != 200 {
			t.Errorf("%s: %d, %v", path, status, err)
		}
	}
}

// Allow is asked for each call, before its body is read, with what the call needs.
//
// spec: B-16
func TestEachCallNeedsARight(t *testing.T) {
	want := map[string]Need{
		"commit": NeedWrite, "reserve": NeedWrite, "load": NeedRead, "find": NeedRead,
		"count": NeedRead, "info": NeedRead, "brief": NeedRead, "slots": NeedRead,
		"purge": NeedAdminister,
	}
	for name := range calls() {
		if _, ok := want[name]; !ok {
			t.Errorf("who may call %s?", name)
		}
	}
	for name, need := range want {
		for may := NeedRead; may <= NeedAdminister; may++ {
			h := Handler(memory.New(), HandlerOptions{Allow: upTo(may)})
			body := `{}`
			if may < need {
				body = `not read`
			}
			status, err := statusFor(t, h, http.MethodPost, Path+"v1/"+name, body)
			if allowed := may >= need; (status == 200) != allowed || (status == 403) == allowed {
				t.Errorf("who may %v calls %s: %d, %v", may, name, status, err)
			}
		}
	}
	for _, h := range []http.Handler{
		Handler(memory.New(), HandlerOptions{}),
		Handler(memory.New(), HandlerOptions{Allow: func(*http.Request, Call) error {
			return fmt.Errorf("no: %w", ErrUnauthenticated)
		}}),
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, Path+"v1/brief", strings.NewReader(`{}`))
		r.Header.Set("Content-Type", mediaType)
		h.ServeHTTP(w, r)
		if challenge := w.Header().Get("WWW-Authenticate"); w.Code != 403 && w.Code != 401 ||
			(challenge == "Bearer") != (w.Code == 401) {
			t.Errorf("%d, %q", w.Code, challenge)
		}
	}
}

// upTo allows what needs no more than a right.
func upTo(may Need) func(*http.Request, Call) error {
	return func(_ *http.Request, c Call) error {
		if c.Need > may {
			return fmt.Errorf("this role may not %v", c.Need)
		}
		return nil
	}
}

// The keys that sign tokens are for administrators, to read and to change.
//
// spec: B-23
func TestSecretsStayAtTheServer(t *testing.T) {
	const secret = "s3cr3t"
	key := store.Setting{Kind: store.TokenKey, Name: "k", Value: []byte(secret)}
	open := store.Setting{Kind: "limit", Name: "l", Value: []byte("1")}
	gone := store.Setting{Kind: store.TokenKey, Name: "gone"}
	put := func(s store.Store, x ...store.Setting) error {
		return s.Commit(t.Context(), &store.Group{
			Now: time.Unix(1, 0), Changes: []store.Change{{Settings: x}},
		})
	}
	db := &recalling{Store: memory.New()}
	if err := put(db, key, open, gone); err != nil {
		t.Fatal(err)
	}
	for may, sees := range []string{NeedRead: "", NeedWrite: "", NeedAdminister: secret} {
		may := Need(may)
		s := opened(t, Handler(db, HandlerOptions{Allow: upTo(may)}))
		for _, ask := range []func(context.Context) (store.Info, error){s.Info, s.Brief} {
			info, err := ask(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range info.Settings {
				want := map[string]string{"k": sees, "l": "1", "gone": ""}[x.Name]
				if string(x.Value) != want || (x.Value == nil) != (x.Name == "gone") {
					t.Errorf("who may %v reads %s as %q", may, x.Name, x.Value)
				}
			}
		}
		if err := put(s, key); (err == nil) != (may == NeedAdminister) ||
			err != nil && journal.CodeOf(err) != journal.CodeUnauthorised {
			t.Errorf("who may %v changes a key: %v", may, err)
		}
	}
}

// A recalling store gives what it has given first, in the same memory.
type recalling struct {
	store.Store
	info *store.Info
}

func (s *recalling) Info(ctx context.Context) (store.Info, error) {
	if s.info == nil {
		info, err := s.Store.Info(ctx)
		if err != nil {
			return info, err
		}
		s.info = &info
	}
	return *s.info, nil
}

// opened returns a client of a handler.
func opened(t *testing.T, h http.Handler) *Store {
	t.Helper()
	s, err := Open(t.Context(), "http://wire", Options{
		Client: &http.Client{Transport: direct{h}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// signalled is a group with a signal to a workflow ID.
func signalled(id string) *store.Group {
	at := time.Unix(1, 0)
	return &store.Group{Now: at, Changes: []store.Change{{Posts: []store.Post{{
		WorkflowID: id, Until: at.Add(time.Hour), Message: journal.Entry{
			Kind: journal.SignalReceived, Op: journal.Op{Name: "x"}, At: at,
			Detail: &journal.Detail{MessageDetail: journal.MessageDetail{Message: "m"}},
		},
	}}}}}
}

func TestAnAuditHearsOfWhatIsWritten(t *testing.T) {
	var heard []string
	db := memory.New()
	s := opened(t, Handler(db, HandlerOptions{
		Allow: everything,
		Wrote: func(r *http.Request, c Call, g *store.Group) {
			text := fmt.Sprint(c.Name, " ", c.Need)
			if g != nil {
				info, err := db.Info(r.Context())
				text += fmt.Sprint(" ", g.Changes[0].Posts[0].Verdict == store.Unrouted, " ",
					info.Unrouted, err)
			}
			heard = append(heard, text)
		},
	}))
	if err := s.Commit(t.Context(), signalled("a")); err != nil {
		t.Error(err)
	}
	told := &store.Group{Changes: []store.Change{{Told: []int64{1}}}}
	if err := s.Commit(t.Context(), told); err == nil {
		t.Error("a client acknowledges an entry of the outbox")
	}
	if _, err := s.Purge(t.Context(), store.Purge{Now: time.Unix(2, 0)}); err != nil {
		t.Error(err)
	}
	if _, _, err := s.Find(t.Context(), store.Filter{}); err != nil {
		t.Error(err)
	}
	want := []string{"commit write true 1 <nil>", "purge administer"}
	if !slices.Equal(heard, want) {
		t.Errorf("%q, want %q", heard, want)
	}
}

// A client that goes away half way has written nothing, and the handler is done with it.
func TestAClientThatClosesHalfWayWritesNothing(t *testing.T) {
	db := memory.New()
	h := Handler(db, HandlerOptions{Allow: everything})
	done := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		h.ServeHTTP(w, r)
	}))
	defer srv.Close()
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	body, err := encode(signalled("a"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(c, "POST %sv1/commit HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n%s", Path, len(body)+1, body)
	c.Close()
	<-done
	if info, err := db.Info(t.Context()); err != nil || info.Unrouted != 0 {
		t.Errorf("%+v, %v", info, err)
	}
}

// pipes is a listener in this process, whose connections keep virtual time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.IPAddr{} }

// dialled returns a connection to a server of a store, which ends with the test.
func dialled(t *testing.T, s store.Store) net.Conn {
	t.Helper()
	at := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	srv := &http.Server{Handler: Handler(s, HandlerOptions{Allow: everything})}
	go srv.Serve(at)
	client, server := net.Pipe()
	at.conns <- server
	t.Cleanup(func() {
		client.Close()
		srv.Close()
	})
	return client
}

// post sends a request, or its beginning if its length is not that of its body.
func post(t *testing.T, c net.Conn, name string, length int, body string) {
	t.Helper()
	if _, err := fmt.Fprintf(c, "POST %sv1/%s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\n"+
		"Content-Length: %d\r\n\r\n%s", Path, name, mediaType, length, body); err != nil {
		t.Fatal(err)
	}
}

func TestASlowSenderIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, begun := dialled(t, memory.New()), time.Now()
		post(t, c, "commit", 100, "{")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if took := time.Since(begun); resp.StatusCode != http.StatusRequestTimeout ||
			took != patience {
			t.Errorf("after %v: %s", took, resp.Status)
		}
	})
}

func TestASlowReaderIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dialled(t, memory.New())
		post(t, c, "brief", 2, "{}")
		time.Sleep(patience + 1)
		if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
			resp.Body.Close()
			t.Errorf("the answer waits: %s", resp.Status)
		}
	})
}

// A pondering store takes longer for an answer than a request may take to come.
type pondering struct{ store.Store }

func (s pondering) Info(ctx context.Context) (store.Info, error) {
	time.Sleep(2 * patience)
	if ctx.Err() != nil {
		return store.Info{}, ctx.Err()
	}
	return s.Store.Info(ctx)
}

func TestASlowStoreIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dialled(t, pondering{memory.New()})
		post(t, c, "info", 2, "{}")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s, %s, %v", resp.Status, text, err)
		}
	})
}

// Nothing in a group that came is changed, and what the sender has is not sent back.
func TestAnAnswerHasNoPayloads(t *testing.T) {
	g := signalled("a")
	g.Changes[0].Posts[0].Message.Data = []byte("payload")
	g.Changes[0].Settings = []store.Setting{{Kind: "k", Value: []byte("payload")}}
	text, err := encode(verdicts(g))
	if err != nil || bytes.Contains(text, []byte("cGF5bG9hZA")) {
		t.Errorf("%s, %v", text, err)
	}
	if string(g.Changes[0].Posts[0].Message.Data) != "payload" || g.Changes[0].Settings == nil {
		t.Error("the group has lost it")
	}
}
