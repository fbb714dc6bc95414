package server

import (
	"cmp"
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/filter"
	"github.com/perdure/perdure/journal"
)

// A StatusCount is the number of runs with a status.
type StatusCount struct {
	Status string `json:"status"`
	Runs   int    `json:"runs"`
	More   bool   `json:"more,omitempty" doc:"there may be more: only the newest were counted"`
}

func (s runRoutes) countRuns(ctx context.Context, in *ConditionsIn) (list[StatusCount], error) {
	q, err := s.query(ctx, in)
	if err != nil {
		return list[StatusCount]{}, err
	}
	runs, more, err := s.client.Count(ctx, q)
	var out []StatusCount
	for _, status := range slices.Sorted(maps.Keys(runs)) {
		out = append(out, StatusCount{
			status.String(), runs[status], slices.Contains(more, status),
		})
	}
	return listOf(out, ""), err
}

// An ErrorGroup is a number of failures whose messages differ in numbers and IDs only.
type ErrorGroup struct {
	Message    string    `json:"message" doc:"of the newest failure"`
	Code       string    `json:"code,omitempty" doc:"of the newest failure"`
	Count      int       `json:"count" doc:"how many failures"`
	Workflows  []string  `json:"workflows" nullable:"false"`
	RunID      string    `json:"run_id,omitempty" doc:"of the newest failure"`
	DeadLetter string    `json:"dead_letter,omitempty" doc:"the newest, in a list of dead letters"`
	At         time.Time `json:"at,omitzero" doc:"of the newest failure"`
	// Filter has the longest text that all messages of the group have. The other parameters of the
	// request are not in it.
	Filter string `json:"filter,omitempty" doc:"the filter that selects these runs, with the other parameters of this request; others too, if their errors have the same text"`
}

// ErrorGroups are the groups of failures, the largest first.
type ErrorGroups struct {
	Items  []ErrorGroup `json:"items" nullable:"false"`
	Left   int          `json:"left,omitempty" doc:"smaller groups that are not in the list"`
	Looked int          `json:"looked" doc:"how many failures were looked at"`
	More   bool         `json:"more,omitempty" doc:"there are older failures that were not looked at"`
}

const (
	errorsLooked = 1000 // failures that are grouped, at most
	errorPages   = 10   // of a list that is searched for them
	errorGroups  = 100  // groups of an answer, at most
)

// runErrors groups the newest failed runs. Their codes are in their journals: only those of the
// groups are read.
func (s runRoutes) runErrors(ctx context.Context, in *ConditionsIn) (ErrorGroups, error) {
	q, err := s.query(ctx, in)
	if err != nil {
		return ErrorGroups{}, err
	}
	failures := slices.DeleteFunc(journal.Statuses(), func(t journal.Status) bool {
		return !t.IsFailure() || len(q.Statuses) > 0 && !slices.Contains(q.Statuses, t)
	})
	var g grouping
	if q.Statuses = failures; len(failures) == 0 || q.Open {
		return g.answer(false), nil
	}
	for range errorPages {
		q.Limit = errorsLooked - g.looked
		heads, next, err := s.client.List(ctx, q)
		if err != nil {
			return ErrorGroups{}, err
		}
		for _, h := range heads {
			if n := g.add(h.Error, h.Workflow); n != nil {
				n.RunID, n.At = string(h.ID), h.Ended.UTC()
			}
		}
		if q.After = next; next.IsZero() || g.looked >= errorsLooked {
			break
		}
	}
	out := g.answer(!q.After.IsZero())
	ids := make([]string, len(out.Items))
	for i := range out.Items {
		ids[i] = out.Items[i].RunID
		out.Items[i].Filter = narrowed(in.Filter, s.now(), out.Items[i].Message)
	}
	newest, err := s.client.Statuses(ctx, ids...)
	for i, status := range newest {
		out.Items[i].Code = string(journal.CodeOf(status.Err))
	}
	return out, err
}

// narrowed returns a filter that also demands what all messages of a group have in common; empty if
// that is nothing.
func narrowed(text string, now time.Time, message string) string {
	common := slices.MaxFunc(strings.Split(keyOf(message), placeholder), func(a, b string) int {
		return cmp.Compare(len(a), len(b))
	})
	if strings.TrimSpace(common) == "" {
		return ""
	}
	q, err := filter.Parse(text, now)
	if err == nil && q.Error == "" { // the rest stays as it is written
		return strings.TrimSpace(text + " " + filter.Print(perdure.Query{Error: common}))
	}
	q.Error = common
	return filter.Print(q)
}

// letterErrors groups the newest dead letters.
func (s adminRoutes) letterErrors(ctx context.Context, in *LettersIn) (ErrorGroups, error) {
	q := in.query()
	var g grouping
	for range errorPages {
		q.Limit = errorsLooked - g.looked
		letters, next, err := s.admin.DeadLetters(ctx, q)
		if err != nil {
			return ErrorGroups{}, err
		}
		for _, l := range letters {
			if n := g.add(l.Error, l.Workflow); n != nil {
				n.RunID, n.DeadLetter, n.Code = l.RunID, l.ID, string(l.Code)
				n.At = l.CreatedAt.UTC()
			}
		}
		if q.After = next; next.IsZero() || g.looked >= errorsLooked {
			break
		}
	}
	return g.answer(!q.After.IsZero()), nil
}

// A grouping groups failures, which are added newest first.
type grouping struct {
	groups map[string]*ErrorGroup // by the keys of their messages
	looked int
}

// add adds a failure. If it begins a group, add returns the group.
func (g *grouping) add(message, workflow string) *ErrorGroup {
	g.looked++
	key := keyOf(message)
	group, known := g.groups[key]
	if !known {
		if g.groups == nil {
			g.groups = map[string]*ErrorGroup{}
		}
		group = &ErrorGroup{Message: message}
		g.groups[key] = group
	}
	group.Count++
	if at, found := slices.BinarySearch(group.Workflows, workflow); !found {
		group.Workflows = slices.Insert(group.Workflows, at, workflow)
	}
	if known {
		return nil
	}
	return group
}

func (g *grouping) answer(more bool) ErrorGroups {
	out := ErrorGroups{Items: []ErrorGroup{}, Looked: g.looked, More: more}
	for _, group := range g.groups {
		out.Items = append(out.Items, *group)
	}
	slices.SortFunc(out.Items, func(a, b ErrorGroup) int {
		return cmp.Or(b.Count-a.Count, b.At.Compare(a.At), strings.Compare(a.Message, b.Message))
	})
	if n := len(out.Items); n > errorGroups {
		out.Items, out.Left = out.Items[:errorGroups], n-errorGroups
	}
	return out
}

const (
	// placeholder stands in a key for what differs between the messages of a group.
	placeholder = "\x00"
	// keyLength is how much of a message counts. Messages of runs are clipped: what is near the end
	// of one may be missing in another.
	keyLength = 120
	// idLength is the length from which a word with letters and digits is an ID as a whole.
	idLength = 8
)

var (
	uuidOrWord = regexp.MustCompile(`[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|\w+`)
	digits     = regexp.MustCompile(`[0-9]+`)
	decimals   = regexp.MustCompile(`\x00([.,:]\x00)+`)
)

// keyOf returns a message with placeholders for the numbers and IDs in it.
func keyOf(message string) string {
	key := uuidOrWord.ReplaceAllStringFunc(message, func(word string) string {
		switch n := digits.FindString(word); {
		case n == "":
			return word
		case strings.Contains(word, "-"), len(word) >= idLength:
			return placeholder
		}
		return digits.ReplaceAllString(word, placeholder)
	})
	key = decimals.ReplaceAllString(key, placeholder)
	if len(key) > keyLength {
		key = strings.ToValidUTF8(key[:keyLength], "")
	}
	return key
}
