package remote

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	neturl "net/url"
	"strings"
	"sync/atomic"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Options are the options of [Open]. They print without the token.
type Options struct {
	// Token is the text by which the server knows the caller. It is sent as a bearer token, to this
	// server only, and is in no error.
	Token string
	// Client sends the requests. Its redirects are not followed. Nil stands for one that gives up
	// after a minute.
	Client *http.Client
}

// Format writes the options without the token.
func (Options) Format(f fmt.State, _ rune) { fmt.Fprint(f, "remote.Options") }

// A Store is the store of a server, for a client. It has no engine: [store.Join] and the other
// claims of engines are refused with a [journal.Error] of code misuse.
type Store struct {
	url       string // of the server, without a slash at its end
	client    *http.Client
	authorise func(http.Header) // has the token, and nothing prints it
	hasToken  bool
	closed    atomic.Bool
}

var (
	_ store.Store      = (*Store)(nil)
	_ store.Briefer    = (*Store)(nil)
	_ store.Counter    = (*Store)(nil)
	_ store.SlotReader = (*Store)(nil)
)

// Open returns the store that a server serves. The URL is the address of the server, such as
// https://perdure.internal, with the path below which the server is found, if there is one. Open
// asks the server once, so that an error of the address, the version or the token is found now.
// These are errors of package journal, with a code and a hint. Any other error means that the
// server does not answer. The caller closes the store.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	base, err := parse(url)
	if err != nil {
		return nil, err
	}
	if strings.ContainsFunc(o.Token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return nil, &journal.Error{
			Code: journal.CodeInvalid, Op: "open " + base, Message: "the token is not valid: " +
				"allowed are letters, digits and signs of ASCII, without spaces",
		}
	}
	s := &Store{url: base, client: clientOf(o.Client), hasToken: o.Token != ""}
	s.authorise = func(h http.Header) {
		if o.Token != "" {
			h.Set("Authorization", "Bearer "+o.Token)
		}
	}
	if _, err := s.Brief(ctx); err != nil {
		s.client.CloseIdleConnections()
		return nil, err
	}
	return s, nil
}

// parse returns the URL of a server without a slash at its end. An error does not show the URL,
// which may have a password in it.
func parse(url string) (string, error) {
	u, err := neturl.Parse(url)
	problem := ""
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		problem = "it is no URL of a server, such as https://perdure.internal"
	case u.User != nil:
		problem = "the URL of a server has no user and no password: a token is passed by itself"
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		problem = "the URL of a server has no settings, and nothing after a ? or #"
	default:
		return strings.TrimRight(u.String(), "/"), nil
	}
	return "", &journal.Error{Code: journal.CodeInvalid, Op: "open a server", Message: problem}
}

// clientOf returns a client that follows no redirect: the token is for one server.
func clientOf(given *http.Client) *http.Client {
	c := http.Client{Timeout: patience}
	if given != nil {
		c = *given
	} else if t, ok := http.DefaultTransport.(*http.Transport); ok {
		c.Transport = t.Clone()
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &c
}

// String returns the URL of the server.
func (s *Store) String() string { return s.url }

// ask makes a call and returns its answer.
func ask[A any](ctx context.Context, s *Store, name string, question any) (A, error) {
	var a answer[A]
	if s.closed.Load() {
		return a.Value, store.ErrClosed
	}
	text, err := encode(question)
	if err != nil {
		return a.Value, &store.DataError{Err: err}
	}
	resp, err := s.send(ctx, name, text)
	if err != nil {
		return a.Value, fmt.Errorf("%s: %w", s.url, bare(err))
	}
	defer resp.Body.Close()
	text, err = io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return a.Value, fmt.Errorf("%s: %w", s.url, err)
	case isRefused(resp.StatusCode, resp.Header):
		return a.Value, s.refused(name, resp, text)
	case !isJSON(resp.Header):
		return a.Value, fmt.Errorf("%s: the answer is %s", s.url, resp.Status)
	}
	if err := decode(text, &a, math.MaxInt64); err != nil {
		return a.Value, fmt.Errorf("the answer of %s is not valid: %w", s.url, err)
	}
	return a.Value, a.Err
}

func (s *Store) send(ctx context.Context, name string, text []byte) (*http.Response, error) {
	url := fmt.Sprintf("%s%sv%d/%s", s.url, Path, version, name)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", mediaType)
	s.authorise(r.Header)
	return s.client.Do(r)
}

// bare returns the cause of an error of the client of package http, which repeats the URL.
func bare(err error) error {
	var u *neturl.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// isRefused reports whether an answer means that the same request is refused again.
func isRefused(status int, h http.Header) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	case http.StatusUnprocessableEntity, http.StatusNotFound:
		return !isJSON(h) // else the store itself may have answered
	}
	return 300 <= status && status < 500
}

// refused returns the error of a request that the server, or somebody before it, refuses.
func (s *Store) refused(name string, resp *http.Response, text []byte) error {
	e := &journal.Error{
		Code: journal.CodeInvalid, Op: name + " at " + s.url,
		Message: "the answer is " + resp.Status,
	}
	status := resp.StatusCode
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		e.Code = journal.CodeUnauthorised
	case status == http.StatusNotFound:
		e.Code, e.Message = journal.CodeUnavailable, "there is no store: the answer is "+resp.Status
		e.Hint = "is it the address of a perdure server?"
	case status < 400:
		e.Code, e.Message = journal.CodeUnavailable, "the server sends on to "+
			resp.Header.Get("Location")
		e.Hint = "name the address where the server is: no token is sent elsewhere"
	}
	var a answer[nothing]
	var by *journal.Error
	if isJSON(resp.Header) && decode(text, &a, math.MaxInt64) == nil && errors.As(a.Err, &by) {
		e.Code, e.Message, e.Hint = by.Code, by.Message, by.Hint
	}
	if e.Code == journal.CodeUnauthorised {
		e.Hint = cmp.Or(e.Hint, s.hint(status))
	}
	return e
}

// hint returns what to do about a status that is about the token.
func (s *Store) hint(status int) string {
	switch {
	case !s.hasToken:
		return "the server asks for a token"
	case status == http.StatusForbidden:
		return "use a token of a role that may"
	}
	return "use another token: the server does not know this one, or not any more"
}

// Commit implements [store.Store]. The group is durable at the server when Commit returns nil.
func (s *Store) Commit(ctx context.Context, g *store.Group) error {
	by, err := ask[*store.Group](context.WithoutCancel(ctx), s, "commit", g)
	if err != nil {
		return err
	}
	if by == nil {
		by = &store.Group{}
	}
	if err := judge(g, by); err != nil {
		return fmt.Errorf("the answer of %s is not valid: %w", s.url, err)
	}
	return nil
}

// Claim reserves an ID for run numbers. The other claims are those of engines, and are refused.
func (s *Store) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	if _, ok := c.(store.ReserveID); !ok {
		return store.Claimed{}, s.engineOnly()
	}
	return ask[store.Claimed](ctx, s, "reserve", nothing{})
}

// engineOnly refuses a call that only an engine makes.
func (s *Store) engineOnly() error {
	return &journal.Error{
		Code: journal.CodeMisuse, Op: "open " + s.url,
		Message: "an engine cannot use the store of a server",
		Hint:    "open the database itself",
	}
}

// Load implements [store.Store].
func (s *Store) Load(ctx context.Context, run journal.Number, r store.Range) ([]journal.Entry,
	error) {
	return ask[[]journal.Entry](ctx, s, "load", loading{run, r})
}

// Spill is for engines, and is refused. Large payloads of clients are part of their groups.
func (s *Store) Spill(context.Context, journal.EngineID, journal.Number, []byte) error {
	return s.engineOnly()
}

// Find implements [store.Store].
func (s *Store) Find(ctx context.Context, f store.Filter) ([]journal.Head, journal.Cursor, error) {
	got, err := ask[found](ctx, s, "find", f)
	return got.Heads, got.Next, err
}

// Count implements [store.Counter].
func (s *Store) Count(ctx context.Context, f store.Filter) ([]store.Count, error) {
	return ask[[]store.Count](ctx, s, "count", f)
}

// Purge implements [store.Store].
func (s *Store) Purge(ctx context.Context, p store.Purge) (store.Purged, error) {
	return ask[store.Purged](ctx, s, "purge", p)
}

// Info implements [store.Store]. The values of secrets are empty, unless the caller may administer.
func (s *Store) Info(ctx context.Context) (store.Info, error) {
	return ask[store.Info](ctx, s, "info", nothing{})
}

// Brief implements [store.Briefer].
func (s *Store) Brief(ctx context.Context) (store.Info, error) {
	return ask[store.Info](ctx, s, "brief", nothing{})
}

// Slots implements [store.SlotReader].
func (s *Store) Slots(ctx context.Context, q store.SlotQuery) ([]store.Slot, error) {
	return ask[[]store.Slot](ctx, s, "slots", q)
}

// Close ends the use of the store. Nothing is said to the server.
func (s *Store) Close() error {
	s.closed.Store(true)
	s.client.CloseIdleConnections()
	return nil
}
