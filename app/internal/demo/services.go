package demo

import "github.com/perdure/perdure/examples/pipeline/daily"

// A willing service sends mails, pays expenses and keeps reports. It never refuses.
type willing struct{}

func (willing) do(c Call) (any, string) { return reference(c), "" }

func (willing) left(Call) int64 { return 0 }

// An archive has the same files for every day.
type archive struct{}

func (archive) do(c Call) (any, string) {
	return map[Action]daily.Units{
		Sales: {"cup": 3, "pot": 1}, Returns: {"cup": 1}, Stock: {"cup": 10, "pot": 5},
	}[c.Action()], ""
}

func (archive) left(Call) int64 { return 0 }

// A nobody is the service for all other actions. It refuses them.
type nobody struct{}

func (nobody) do(Call) (any, string) { return nil, "nobody does that" }

func (nobody) left(Call) int64 { return 0 }
