package sealed

import (
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure/internal/rules"
	"github.com/perdure/perdure/store"
)

// Living reports whether an engine has the store.
func Living(info store.Info) bool {
	return slices.ContainsFunc(info.Engines, func(e store.Engine) bool { return !e.Expired })
}

// How many engines, and workflows of each, a text names.
const (
	namedEngines   = 3
	namedWorkflows = 5
)

// Lacking describes that no living engine has a workflow, and which workflows the engines have. It
// returns an empty string if an engine has it, or may have it because it does not say, and if there
// is no engine.
func Lacking(info store.Info, workflow string) string {
	var others []string
	for _, e := range info.Engines {
		switch {
		case e.Expired:
		case e.Workflows == nil, slices.Contains(e.Workflows, workflow):
			return ""
		default:
			others = append(others, fmt.Sprintf("engine %d (process %d on %s) has %s", e.ID, e.PID,
				e.Host, few(usersOf(e), namedWorkflows, ", ", "no workflow")))
		}
	}
	if len(others) == 0 {
		return ""
	}
	return "no engine has workflow " + workflow + ": " + few(others, namedEngines, "; ", "")
}

// usersOf returns the names of an engine's workflows without those that it has by itself.
func usersOf(e store.Engine) []string {
	return slices.DeleteFunc(slices.Clone(e.Workflows), rules.IsOwn)
}

// few joins the first of some texts, and says how many more there are; none if there are none.
func few(texts []string, most int, between, none string) string {
	if len(texts) == 0 {
		return none
	}
	more := ""
	if n := len(texts) - most; n > 0 {
		texts, more = texts[:most], fmt.Sprintf("%sand %d more", between, n)
	}
	return strings.Join(texts, between) + more
}
