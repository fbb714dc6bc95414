package remote

import (
	"cmp"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Path is where a server serves its store, below its address.
const Path = "/api/store/"

const (
	version   = 1 // of the protocol
	mediaType = "application/json"
	// patience limits how long a request or an answer may be on its way.
	patience = time.Minute
)

// A Need is the right that a caller needs for a call. Who has one has those before it.
type Need int

// The needs.
const (
	NeedRead       Need = iota // to read runs, and facts of the store
	NeedWrite                  // to start runs, send messages, and change settings
	NeedAdminister             // to purge, and to read and change secrets
)

// String returns the need as a verb.
func (n Need) String() string {
	switch n {
	case NeedRead:
		return "read"
	case NeedWrite:
		return "write"
	case NeedAdminister:
		return "administer"
	}
	return "Need(" + strconv.Itoa(int(n)) + ")"
}

// A Call is one call of a client.
type Call struct {
	Name string // commit, reserve, load, find, purge, info, brief or slots
	Need Need
}

// HandlerOptions say who may call a [Handler], and who is told. The zero value allows nothing.
type HandlerOptions struct {
	// Allow decides whether the sender of a request may make a call. It is asked before the request
	// is read, and again with NeedAdminister if the call turns out to be about a secret. Its error
	// refuses the call, with status 401 if it is [ErrUnauthenticated], else with 403. The client
	// gets the text. If Allow is nil, no call is allowed.
	Allow func(r *http.Request, c Call) error
	// Wrote is told of a call that has written, when that is durable and before the client hears
	// of it: of a commit, with the group and its verdicts, and of a purge, with nil. It must not
	// change the group. It may be nil.
	Wrote func(r *http.Request, c Call, g *store.Group)
	// Failed returns the error that the client gets for one of the store. It may hide what only
	// operators of the server should read, such as the address of a database. If it is nil, the
	// client gets the error as it is.
	Failed func(r *http.Request, c Call, err error) error
	// MaxBody limits the bytes of a request. 0: 96 MB, enough for a payload of 64 MB.
	MaxBody int64
}

const defaultMaxBody = 96 << 20

// ErrUnauthenticated is the error of HandlerOptions.Allow for a caller that it does not know.
var ErrUnauthenticated = errors.New("the request has no valid token")

// Handler serves a store to clients that have no engine, at the path v1/ and the name of the call,
// below wherever it is mounted. Clients of [Open] expect it at [Path]. It does not close the store.
//
// It ends the reading of a request and the writing of an answer after a minute each. The limits for
// headers and idle connections are those of the server.
func Handler(s store.Store, o HandlerOptions) http.Handler {
	o.MaxBody = cmp.Or(o.MaxBody, defaultMaxBody)
	return &handler{store: s, o: o, calls: calls()}
}

type handler struct {
	store store.Store
	o     HandlerOptions
	calls map[string]call
}

// A refusal is the error of a request that the handler does not carry out.
type refusal struct {
	status int
	err    *journal.Error
}

func (e *refusal) Error() string { return e.err.Error() }
func (e *refusal) Unwrap() error { return e.err }

func invalid(name string, err error) error {
	return refuse(http.StatusBadRequest, journal.CodeInvalid, name, "the request is not valid: "+
		err.Error(), "are the client and the server of one version?")
}

func refuse(status int, code journal.Code, name, message, hint string) error {
	return &refusal{status, &journal.Error{Code: code, Op: name, Message: message, Hint: hint}}
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, err := h.serve(w, r)
	if a == nil {
		a = answer[nothing]{Err: err}
	}
	text, encodeErr := encode(a)
	if encodeErr != nil { // nothing that a store returns is like that
		http.Error(w, encodeErr.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	status := statusOf(err)
	switch status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	}
	// Where there is no connection, there is no deadline. A client that is gone asks again.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(patience))
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// statusOf returns the status of an answer with an error.
func statusOf(err error) int {
	var refused *refusal
	var data *store.DataError
	switch {
	case err == nil:
		return http.StatusOK
	case errors.As(err, &refused):
		return refused.status
	case errors.As(err, &data):
		return http.StatusUnprocessableEntity
	case errors.Is(err, store.ErrNotFound):
		return http.StatusNotFound
	}
	return http.StatusServiceUnavailable
}

// serve carries out a request.
func (h *handler) serve(w http.ResponseWriter, r *http.Request) (any, error) {
	name, c, err := h.route(r)
	if err != nil {
		return nil, err
	}
	s := &session{handler: h, r: r, call: Call{name, c.need}}
	if err := s.allow(c.need); err != nil {
		return nil, err
	}
	question, err := h.body(w, r, name)
	if err != nil {
		return nil, err
	}
	return c.do(s, question)
}

// route returns the call that a request names. It looks at the last two parts of the path.
func (h *handler) route(r *http.Request) (name string, c call, err error) {
	above, name := path.Split(r.URL.Path)
	speaks, isVersion := strings.CutPrefix(path.Base(above), "v")
	n, err := strconv.Atoi(speaks)
	c, ok := h.calls[name]
	switch {
	case isVersion && err == nil && n != version:
		err = otherVersion(name, n)
	case !isVersion || err != nil || !ok:
		err = refuse(http.StatusNotFound, journal.CodeInvalid, name, "there is no such call of a "+
			"client", "are the client and the server of one version?")
	case r.Method != http.MethodPost:
		err = refuse(http.StatusMethodNotAllowed, journal.CodeInvalid, name, "a call is a POST", "")
	case !isJSON(r.Header):
		err = refuse(http.StatusUnsupportedMediaType, journal.CodeInvalid, name,
			"a call has the content type "+mediaType+", and is not compressed", "")
	}
	return name, c, err
}

// isJSON reports whether a body has the type of the protocol, in UTF-8 and not compressed.
func isJSON(h http.Header) bool {
	is, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	charset := strings.ToLower(cmp.Or(params["charset"], "utf-8"))
	return err == nil && is == mediaType && charset == "utf-8" && h.Get("Content-Encoding") == ""
}

func otherVersion(name string, n int) error {
	older, newer := "server", "client"
	if n < version {
		older, newer = newer, older
	}
	return refuse(http.StatusNotFound, journal.CodeUnavailable, name, "the client speaks version "+
		strconv.Itoa(n)+" of the protocol, and the server version "+strconv.Itoa(version)+": the "+
		older+" is older than the "+newer, "use a newer "+older)
}

// allow asks whether the caller may do what has this need.
func (s *session) allow(need Need) error {
	status, err := http.StatusForbidden, errors.New("nobody is allowed to use this store")
	if s.o.Allow != nil {
		err = s.o.Allow(s.r, Call{s.call.Name, need})
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrUnauthenticated):
		status = http.StatusUnauthorized
	}
	return refuse(status, journal.CodeUnauthorised, s.call.Name, err.Error(), "")
}

func (s *session) wrote(g *store.Group) {
	if s.o.Wrote != nil {
		s.o.Wrote(s.r, s.call, g)
	}
}

// body reads the body of a request.
func (h *handler) body(w http.ResponseWriter, r *http.Request, name string) ([]byte, error) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(patience))
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.o.MaxBody))
	var large *http.MaxBytesError
	switch {
	case err == nil:
		return text, nil
	case errors.As(err, &large):
		return nil, refuse(http.StatusRequestEntityTooLarge, journal.CodeTooLarge, name,
			"the request has more than "+strconv.FormatInt(large.Limit, 10)+" bytes", "")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, refuse(http.StatusRequestTimeout, journal.CodeUnavailable, name,
			"the request did not come in time", "")
	}
	return nil, invalid(name, err)
}
