package mcp

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxAnswer is how much of an answer an agent gets at a time, in bytes.
const maxAnswer = 32_000

// An answer keeps a part of what the server answers.
type answer struct {
	header http.Header
	status int
	skip   int // bytes that are left out
	total  int // bytes of the whole answer so far
	part   []byte
}

// Header implements [http.ResponseWriter].
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK {
		a.status = status
	}
}

// Write implements [http.ResponseWriter].
func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	rest := b[min(len(b), max(0, a.skip-a.total)):]
	a.part = append(a.part, rest[:min(len(rest), maxAnswer-len(a.part))]...)
	a.total += len(b)
	return len(b), nil
}

// result returns the answer as an agent gets it. Again reports that the operation may be called
// again for the rest.
func (a *answer) result(again bool) *sdk.CallToolResult {
	text := a.part
	if a.skip+len(text) < a.total {
		text = wholeRunes(text)
	}
	end := a.skip + len(text)
	out := &sdk.CallToolResult{
		IsError: a.status >= http.StatusMultipleChoices,
		Content: []sdk.Content{&sdk.TextContent{
			Text: strings.ToValidUTF8(string(bytes.TrimRight(text, "\n")), "\uFFFD"),
		}},
	}
	note := ""
	switch {
	case end > a.total:
		note = fmt.Sprintf("The answer has %d bytes only.", a.total)
	case end == a.total:
		return out
	case again:
		note = fmt.Sprintf("This is a part of the answer, up to byte %d of %d. For the next part, "+
			"call the tool again with skip %d. Or ask for less, such as with a smaller limit.", end,
			a.total, end)
	default:
		note = fmt.Sprintf("This is a part of the answer, up to byte %d of %d. Do not call the "+
			"tool again for the rest: it would act again. Read it with a tool that only reads.",
			end, a.total)
	}
	out.Content = append(out.Content, &sdk.TextContent{Text: note})
	return out
}

// wholeRunes returns a text without the beginning of a character at its end.
func wholeRunes(text []byte) []byte {
	for range utf8.UTFMax - 1 {
		if r, size := utf8.DecodeLastRune(text); r != utf8.RuneError || size != 1 {
			break
		}
		text = text[:len(text)-1]
	}
	return text
}
