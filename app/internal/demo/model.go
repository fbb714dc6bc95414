package demo

import "strings"

// script is what the model says to one note, to two notes, and so on.
var script = []Reply{
	{Tool: "search", Argument: "parcel 4711", Tokens: 212},
	{Tool: "track", Argument: "truck 12", Tokens: 348},
	{Tool: "weather", Argument: "Brenner", Tokens: 401},
	{Answer: "it comes tomorrow: the road is closed by snow", Tokens: 522},
}

// found is what the tools give.
var found = map[Action]string{
	Search:  "it is on truck 12",
	Track:   "truck 12 waits before the Brenner",
	Weather: "snow until tonight",
}

// A model decides by what it is told, and is paid by the call. Its tools cost
// nothing.
type model struct{ tokens int64 }

func (m *model) do(c Call) (any, string) {
	if text, ok := found[c.Action]; ok {
		return text, ""
	}
	notes := strings.Count(c.Text, "\n") + 1
	if notes > len(script) {
		return nil, "nothing more to say"
	}
	reply := script[notes-1]
	m.tokens += reply.Tokens
	return reply, ""
}

func (m *model) left(Call) int64 { return m.tokens }
