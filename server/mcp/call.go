package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/journal"
)

// A caller calls one operation of the API.
type caller struct {
	api http.Handler
	operation
}

// call is the handler of a tool. It sends a request to the API, in the name of the one who has sent
// the message.
func (c caller) call(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	r, skip, err := c.request(requestOf(ctx).Request, req.Params.Arguments)
	if err != nil {
		return refused(err), nil
	}
	out := &answer{header: http.Header{}, skip: skip}
	err = guard.Call(func() error {
		c.api.ServeHTTP(out, r)
		return nil
	})
	if abort := guard.AbortOf(err); abort != nil {
		slog.ErrorContext(ctx, "perdure: a tool did not return", "tool", c.ID,
			"error", abort.Error(), "stack", abort.Stack())
		return nil, errors.New("the server has failed: its log has the reason")
	}
	return out.result(c.reads()), nil
}

// refused returns the result of a call whose arguments are not valid, in the form of a problem of
// the API.
func refused(err error) *sdk.CallToolResult {
	text, _ := json.Marshal(map[string]any{ // it has texts and a number only
		"type": "about:blank", "title": http.StatusText(http.StatusBadRequest),
		"status": http.StatusBadRequest, "detail": err.Error(), "code": journal.CodeInvalid,
		"hint": "the input schema of the tool has its arguments",
	})
	return &sdk.CallToolResult{
		Content: []sdk.Content{&sdk.TextContent{Text: string(text)}}, IsError: true,
	}
}
