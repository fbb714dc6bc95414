package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/server/auth"
)

// A Problem is the body of an answer that is an error, as RFC 9457 defines it.
type Problem struct {
	Type   string `json:"type"` // about:blank
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`         // what happened, and why
	Code   string `json:"code"`           // for programs
	Hint   string `json:"hint,omitempty"` // what to do next
	// Errors are the defects of the request, if there are several.
	Errors []Defect `json:"errors,omitempty"`

	untold bool // its detail is what a store says that does not answer
}

// A Defect is one thing in a request that is not valid.
type Defect struct {
	At      string `json:"at"` // such as body.input or query.limit
	Message string `json:"message"`
}

// Error implements error.
func (p *Problem) Error() string { return p.Detail }

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType implements huma.ContentTypeFilter.
func (p *Problem) ContentType(string) string { return problemType }

const problemType = "application/problem+json"

// Codes of problems that are not codes of package journal.
const (
	codeUnauthenticated = "unauthenticated"
	codeForbidden       = "forbidden"
	codeExpired         = "expired"
	codeTooMany         = "too_many_failures"
	codeUnsupported     = "unsupported"
	codeForeignHost     = "foreign_host"
	codeForeignOrigin   = "foreign_origin"
	codeInternal        = "internal"
)

func problem(status int, code, detail, hint string) *Problem {
	return &Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail,
		Code: code, Hint: hint,
	}
}

// statuses has the status of each code of an error; others are 500.
var statuses = map[journal.Code]int{
	journal.CodeInvalid:      http.StatusBadRequest,
	journal.CodeMisuse:       http.StatusBadRequest,
	journal.CodeEncode:       http.StatusBadRequest,
	journal.CodeDecode:       http.StatusBadRequest,
	journal.CodeTopology:     http.StatusBadRequest,
	journal.CodeUnauthorised: http.StatusForbidden,
	journal.CodeNotFound:     http.StatusNotFound,
	journal.CodeUnregistered: http.StatusNotFound,
	journal.CodeConflict:     http.StatusConflict,
	journal.CodeWrongState:   http.StatusConflict,
	journal.CodeDuplicate:    http.StatusConflict,
	journal.CodeTooLarge:     http.StatusRequestEntityTooLarge,
	journal.CodeUnavailable:  http.StatusServiceUnavailable,
	journal.CodeStopped:      http.StatusServiceUnavailable,
}

// problemOf returns the problem of an error of the packages that the server calls. What a database
// says that does not answer has its host and user, so callers who are not admins do not get it.
func (s *Server) problemOf(ctx context.Context, err error) *Problem {
	p := problemOf(err)
	if !p.untold {
		return p
	}
	s.log.Error("perdure: a request has failed", "error", err)
	if who(ctx).Role < auth.Admin {
		p.Detail, p.Hint = "the server cannot do this now", inLog
	}
	return p
}

const inLog = "the log of the server has the reason"

// problemOf is that method for errors that are not of a store.
func problemOf(err error) *Problem {
	var p *Problem
	var e *journal.Error
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return problem(http.StatusServiceUnavailable, string(journal.CodeUnavailable),
			"the server did not come to an end in time", "send the request again")
	case errors.As(err, &e):
		status := statuses[e.Code]
		if status == 0 {
			status = http.StatusInternalServerError
		}
		p = problem(status, string(e.Code), err.Error(), e.Hint)
		p.untold = status == http.StatusServiceUnavailable
		return p
	}
	p = problem(http.StatusInternalServerError, codeInternal, err.Error(), inLog)
	p.untold = true
	return p
}

// of makes a problem from a defect that huma has found. Its status 422 becomes 400: this API has
// one status for a request that is not valid.
func of(m *huma.ErrorModel) *Problem {
	status := m.Status
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	code := string(journal.CodeInvalid)
	switch status {
	case http.StatusRequestEntityTooLarge:
		code = string(journal.CodeTooLarge)
	case http.StatusUnsupportedMediaType, http.StatusNotAcceptable:
		code = codeUnsupported
	case http.StatusInternalServerError:
		code = codeInternal
	}
	p := problem(status, code, m.Detail, "")
	for _, d := range m.Errors {
		p.Errors = append(p.Errors, Defect{d.Location, d.Message})
	}
	if status == http.StatusBadRequest {
		p.Hint = "the API is described at openapi.json, and for readers at docs"
	}
	return p
}

// write answers a request with a problem.
func (p *Problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the caller may be gone
}
