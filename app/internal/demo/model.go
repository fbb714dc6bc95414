package demo

import (
	"strings"

	"github.com/perdure/perdure/examples/agent/assistant"
)

// script has the replies of the model. The first one answers the question alone, the second
// one the question with one finding, and so on.
var script = []assistant.Reply{
	{Tool: "search", Text: "parcel 4711", Tokens: 212},
	{Tool: "track", Text: "truck 12", Tokens: 348},
	{Tool: "weather", Text: "Brenner", Tokens: 401},
	{Text: "it comes tomorrow: the road is closed by snow", Tokens: 522},
}

// found has the results of the tools.
var found = map[Action]string{
	Search:  "it is on truck 12",
	Track:   "truck 12 waits before the Brenner",
	Weather: "snow until tonight",
}

// A model replies by the length of the talk, and is paid for each call. Its tools cost
// nothing.
type model struct{ tokens int64 }

func (m *model) do(c Call) (any, string) {
	if text, ok := found[c.Action()]; ok {
		return text, ""
	}
	turn := strings.Count(c.Text, "\n")
	if turn >= len(script) {
		return nil, "nothing more to say"
	}
	m.tokens += int64(script[turn].Tokens)
	return script[turn], ""
}

func (m *model) left(Call) int64 { return m.tokens }
