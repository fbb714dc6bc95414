// Package limit holds work back: so many runs at a time, so many starts or calls in a span of time,
// one holder of a name at a time.
//
// A [Control] is an option of a workflow or a step, and workflow code takes a slot of a
// [Semaphore]. The limits are counted in the store, over all engines. A crash leaves neither a slot
// nor a token behind, because only the commit that begins or ends something changes them.
package limit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/rules"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Control holds back the runs of a workflow, or the attempts of a step. A field that is zero
// holds nothing back. The zero Control is not valid.
//
// A run that is held back is PENDING and not in memory, and the cause in its head names the limit.
// It has its slots from its admission to its end, also while it sleeps or is suspended; a run that
// continues it as new has them then. Runs that had begun before their workflow had a limit are not
// counted.
//
// The engine that admits a run computes its key and its priority. So it does not matter who has
// started the run.
type Control struct {
	// Name is the name of the limit; empty for the name of the workflow. Workflows with limits of
	// one name share them, but for Singleton, Debounce and Gather.
	Name string

	// Concurrency is how many runs may have begun and not ended at a time.
	Concurrency int
	// PerKey is how many of them may have the same key. Runs with an empty key have no such limit.
	PerKey int
	// Rate is how often runs begin, for each key.
	Rate Rate
	// Singleton lets one run of each key be open at a time, and none wait for its end: see [Join]
	// and [Replace]. It needs no Key if the workflow is to have one open run. If there is a Key,
	// runs with an empty key are not counted.
	Singleton Singleton
	// Debounce makes one run of the starts of a key that come one soon after the other. Key is as
	// for a Singleton.
	Debounce Debounce
	// Gather makes one run of several starts of a key, with all of their inputs. Key is as for a
	// Singleton.
	Gather Gather

	// Key computes the key that runs are counted by. The zero Key is empty for all runs.
	Key Key

	// Priority is compared if runs wait for a slot: a run with a higher one is first.
	Priority int
	// Rank computes the priority of each run instead.
	Rank Rank
	// Fair makes the keys that wait for the slots of Concurrency get one each in turn. Otherwise
	// the run that was started first is first.
	Fair bool

	workflow string
}

// A Singleton is the end of one of two runs, if a run is started while one of its key is open.
type Singleton uint8

const (
	// Join makes the open run the run of the start. The run that was made for the start ends as
	// CONTINUED_AS_NEW, and the open run is its successor, so that a handle on it has the result
	// of that run. Its own input is not used. A start through an engine returns the open run. A
	// child stays PENDING until the open run ends, and ends like it. A run that retries another
	// one, or is forked from it, waits until the open run has ended, and begins.
	Join Singleton = iota + 1
	// Replace cancels the open run, and the run of the start begins when the open run has ended.
	// If others are started meanwhile, only the last of them begins, and the others are CANCELLED.
	Replace
)

// A Debounce delays the first run of a key until no other is started for some time. It begins with
// the input of the last start. The runs of the other starts end as CONTINUED_AS_NEW, and that run
// is their successor, so that their handles have its result; a child stays PENDING, and ends like
// it. A run of at most [MostGathered] starts begins; further ones make another run. The zero
// Debounce delays nothing.
type Debounce struct {
	// Quiet is how long no other start may come.
	Quiet time.Duration
	// Longest is the longest delay of the first start; 0 for no limit.
	Longest time.Duration
}

// A Gather delays the first run of a key until there are Most starts, or until Within is over. The
// input of the workflow has to be a list: the run begins with one list of all items of all starts,
// in their order. The runs of the other starts end as those of a [Debounce]. The zero Gather delays
// nothing.
type Gather struct {
	// Most is the number of starts, at most MostGathered; 0 for MostGathered.
	Most int
	// Within is the longest delay of the first start.
	Within time.Duration
}

// MostGathered is the largest number of starts that become one run.
const MostGathered = store.MaxLimit

// gather returns how runs gather starts; nil if they do not. It also returns what is wrong.
func (c Control) gather() (*kernel.Gather, string) {
	n := 0
	for _, is := range []bool{
		c.Singleton != 0, c.Debounce != Debounce{}, c.Gather != Gather{},
	} {
		if is {
			n++
		}
	}
	d, g := c.Debounce, c.Gather
	switch {
	case n > 1:
		return nil, "a limit has a Singleton, a Debounce or a Gather"
	case d != Debounce{}:
		if d.Quiet <= 0 || d.Longest < 0 || d.Longest > 0 && d.Longest < d.Quiet {
			return nil, "a Debounce needs a Quiet above 0, and a Longest of 0 or at least Quiet"
		}
		return &kernel.Gather{Quiet: d.Quiet, Within: d.Longest, Most: MostGathered}, ""
	case g != Gather{}:
		if g.Within <= 0 || g.Most < 0 || g.Most == 1 || g.Most > MostGathered {
			return nil, fmt.Sprintf("a Gather needs a Within above 0, and a Most of 0, or of 2 "+
				"to %d", MostGathered)
		}
		most := g.Most
		if most == 0 {
			most = MostGathered
		}
		return &kernel.Gather{Within: g.Within, Most: most, Union: union}, ""
	}
	return nil, ""
}

// union returns one list of the items of several.
func union(lists [][]byte) ([]byte, error) {
	all := []json.RawMessage{}
	for _, list := range lists {
		items, err := itemsOf(list)
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
	}
	return json.Marshal(all)
}

func itemsOf(list []byte) (items []json.RawMessage, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(list, &items); err != nil {
		return nil, errors.New("the input of a workflow that gathers starts is not a list")
	}
	return items, nil
}

// A Rate is a number of tokens in a span of time. In no span are more tokens given than Burst, and
// Tokens for each Per. The zero Rate has no limit.
type Rate struct {
	Tokens int
	Per    time.Duration
	// Burst is how many tokens are given at once after a time without any; 0 for one.
	Burst int
}

// every returns the time in which a bucket gains a token, rounded up.
func (r Rate) every() time.Duration { return rules.Rate(r).Every() }

// check returns what is wrong with a rate, or the empty string.
func (r Rate) check() string {
	switch {
	case r == Rate{}:
		return ""
	case r.Tokens < 1 || r.Per <= 0:
		return "a Rate needs Tokens of at least 1 and a Per above 0"
	case r.Burst < 0 || int64(max(r.Burst, 1)) > int64(store.MaxFill/r.every()):
		return "the Burst of a Rate is not valid: allowed are 0 and above, as long as the bucket " +
			"fills within 100 years"
	}
	return ""
}

// A Key computes what a run is counted by.
type Key struct {
	of    func(input []byte) (string, error)
	fixed bool // it does not depend on the input
}

// By returns a Key that a function computes from the input of a run. The function must decide by
// its argument alone. The input of a run that cannot be decoded fails the run.
func By[I any](key func(in I) string) Key {
	if key == nil {
		return Key{}
	}
	return Key{of: computed(key)}
}

// computed returns a function of the bytes of an input.
func computed[I, T any](f func(in I) T) func(input []byte) (T, error) {
	return func(input []byte) (out T, err error) {
		var in I
		if len(input) > 0 {
			if err := json.Unmarshal(input, &in); err != nil {
				return out, fmt.Errorf("the input does not decode into %T: %w", in, err)
			}
		}
		return f(in), nil
	}
}

// A Rank computes the priority of a run. The zero Rank computes none.
type Rank struct {
	of func(input []byte) (int, error)
}

// RankBy returns a Rank that a function computes from the input of a run. The function must decide
// by its argument alone. A priority has 32 bits. An input that cannot be decoded, or whose priority
// is not valid, fails the run.
func RankBy[I any](priority func(in I) int) Rank {
	if priority == nil {
		return Rank{}
	}
	return Rank{of: computed(priority)}
}

// IsZero reports whether the Rank computes no priority.
func (r Rank) IsZero() bool { return r.of == nil }

// isPriority reports whether a priority is valid: stores keep 32 bits.
func isPriority(n int) bool { return n >= math.MinInt32 && n <= math.MaxInt32 }

// Is returns a Key with that value, for a step whose workflow knows it.
func Is(value string) Key {
	return Key{of: func([]byte) (string, error) { return value, nil }, fixed: true}
}

// longestKey is the longest key that is kept as it is.
const longestKey = 200

// keptKey returns a key as the store keeps it. A key that is long, or no text, becomes its
// beginning and its hash, so that any key is possible.
func keptKey(key string) string {
	if len(key) <= longestKey && utf8.ValidString(key) && !strings.ContainsRune(key, 0) {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	begin := strings.ToValidUTF8(key[:min(len(key), 60)], "�")
	return strings.ReplaceAll(begin, "\x00", "�") + "…" + hex.EncodeToString(sum[:16])
}

// ApplyToWorkflow implements perdure.WorkflowOption.
func (c Control) ApplyToWorkflow(w *sealed.Workflow) error {
	op := "define " + w.Name
	if w.Limits != nil {
		return failure.Invalid(op, "a workflow has one limit.Control")
	}
	if c.Name == "" {
		c.Name = w.Name
	}
	switch {
	case !journal.ValidName(c.Name) || len(c.Name) > rules.LongestLimit:
		return failure.Invalid(op, "the name of a limit is not valid: allowed are names of at "+
			"most %d bytes", rules.LongestLimit)
	case c.Concurrency < 0 || c.PerKey < 0:
		return failure.Invalid(op, "Concurrency and PerKey of a limit are not valid: allowed are "+
			"0, for no limit, and above")
	case c.Singleton > Replace:
		return failure.Invalid(op, "Singleton of a limit is not valid: allowed are 0, limit.Join "+
			"and limit.Replace")
	case c.Concurrency == 0 && c.PerKey == 0 && c.Rate == Rate{} && !c.isOne():
		return failure.Invalid(op, "a limit.Control without Concurrency, PerKey, Rate, "+
			"Singleton, Debounce and Gather holds nothing back")
	case c.PerKey > 0 && c.Key.of == nil:
		return failure.Invalid(op, "PerKey needs a Key, such as limit.By(func(in T) string)")
	case c.Priority != 0 && !c.Rank.IsZero():
		return failure.Invalid(op, "a limit has a Priority or a Rank, not both")
	case !isPriority(c.Priority):
		return failure.Invalid(op, "the Priority of a limit is not valid: allowed are 32 bits")
	}
	if wrong := c.Rate.check(); wrong != "" {
		return failure.Invalid(op, "%s", wrong)
	}
	gather, wrong := c.gather()
	if wrong != "" {
		return failure.Invalid(op, "%s", wrong)
	}
	if c.workflow = w.Name; c.isOne() && len(w.Name) > rules.LongestLimit {
		return failure.Invalid(op, "a workflow with a Singleton, Debounce or Gather has a name "+
			"of at most %d bytes", rules.LongestLimit)
	}
	if gather != nil && gather.Union != nil && w.Decodes([]byte("[]")) != nil {
		return failure.Invalid(op, "a workflow with a Gather has a list as its input")
	}
	w.Limits, w.Limit, w.Bounds = c.asks, c.Name, c.bounds()
	w.Singleton, w.Gather = kernel.Singleton(c.Singleton), gather
	return nil
}

// ApplyToStep implements perdure.StepOption: each attempt needs a token of Rate. It waits for it
// durably, in order, and no attempt counts meanwhile. Of the other fields only Name, which a step
// has to have, and Key apply, and the key is a value: [Is].
func (c Control) ApplyToStep(o *sealed.Operation) error {
	const op = "step"
	switch {
	case c.Rate == Rate{}:
		return failure.Invalid(op, "a limit.Control of a step needs a Rate; a limit.Semaphore "+
			"limits how many runs are in a part of their work")
	case c.Concurrency != 0 || c.PerKey != 0 || c.Priority != 0 || !c.Rank.IsZero() || c.Fair ||
		c.Singleton != 0 || c.Debounce != Debounce{} || c.Gather != Gather{}:
		return failure.Invalid(op, "a limit.Control of a step has Name, Key and Rate only")
	case c.Key.of != nil && !c.Key.fixed:
		return failure.Invalid(op, "the Key of a step has no input to compute it from: use "+
			"limit.Is")
	case c.Name == "" || !journal.ValidName(c.Name) || len(c.Name) > rules.LongestLimit:
		return failure.Invalid(op, "the name of the limit of a step is not valid: allowed are "+
			"names of 1 to %d bytes", rules.LongestLimit)
	}
	if wrong := c.Rate.check(); wrong != "" {
		return failure.Invalid(op, "%s", wrong)
	}
	a, f := Control{Name: c.Name, Key: c.Key, Rate: c.Rate}.asks(nil)
	if f != nil {
		return failure.Invalid(op, "%s", f.Message)
	}
	o.Limit = &a[0]
	return nil
}

// bounds returns the limits in the store that a workflow with the Control has.
func (c Control) bounds() (all []store.Adjust) {
	if c.Rate != (Rate{}) {
		all = append(all, store.Adjust{
			Limit: c.Name + rules.RateLimit, Every: c.Rate.every(), Burst: max(c.Rate.Burst, 1),
		})
	}
	if c.PerKey > 0 {
		all = append(all, store.Adjust{Limit: c.Name + rules.KeyLimit, Max: c.PerKey})
	}
	if c.Concurrency > 0 {
		all = append(all, store.Adjust{Limit: c.Name, Max: c.Concurrency})
	}
	return all
}

// asks returns what a run with that input asks for: the slot of a singleton first, so that nothing
// is held by a run that does not begin; then a token, so that no other slot is held while a run
// waits for one; then the slot of its key, so that a key that is full keeps no other from the slots
// of all. All have the priority and the share, for a slot that only a setting asks for.
func (c Control) asks(input []byte) (asks []store.Ask, f *journal.Failure) {
	key, priority, err := c.computed(input)
	if err != nil {
		return nil, &journal.Failure{Code: journal.CodeInvalid, Message: err.Error()}
	}
	if c.Gather != (Gather{}) {
		if _, err := itemsOf(input); err != nil {
			return nil, &journal.Failure{Code: journal.CodeInvalid, Message: err.Error()}
		}
	}
	if c.isOne() && (key != "" || c.Key.of == nil) {
		asks = append(asks, store.Ask{
			Slot: rules.OneSlot, Limit: c.workflow + rules.OneLimit, Key: key, Max: 1,
		})
	}
	if c.Rate != (Rate{}) {
		asks = append(asks, store.Ask{
			Slot: rules.StartToken, Limit: c.Name + rules.RateLimit, Key: key,
			Every: c.Rate.every(), Burst: max(c.Rate.Burst, 1),
		})
	}
	if c.PerKey > 0 && key != "" {
		asks = append(asks, store.Ask{
			Slot: rules.KeySlot, Limit: c.Name + rules.KeyLimit, Key: key, Max: c.PerKey,
		})
	}
	// a run of no Concurrency has its place in line, for a setting
	if c.Concurrency > 0 || c.isOne() && (priority != 0 || c.Fair) {
		asks = append(asks, store.Ask{Slot: rules.RunSlot, Limit: c.Name, Max: c.Concurrency})
	}
	for i := range asks {
		if asks[i].Slot == rules.OneSlot { // the last that was started is the last in line
			continue
		}
		if asks[i].Priority = priority; c.Fair {
			asks[i].Share = key
		}
	}
	return asks, nil
}

// isOne reports whether runs of one key have a slot that only one of them has.
func (c Control) isOne() bool {
	return c.Singleton != 0 || c.Debounce != Debounce{} || c.Gather != Gather{}
}

// computed returns the key and the priority of a run with that input.
func (c Control) computed(input []byte) (key string, priority int, err error) {
	priority = c.Priority
	if c.Key.of != nil {
		if key, err = c.Key.of(input); err != nil {
			return "", 0, fmt.Errorf("the key of limit %s: %w", c.Name, err)
		}
		key = keptKey(key)
	}
	if !c.Rank.IsZero() {
		if priority, err = c.Rank.of(input); err == nil && !isPriority(priority) {
			err = fmt.Errorf("%d is not valid: allowed are 32 bits", priority)
		}
		if err != nil {
			return "", 0, fmt.Errorf("the priority in limit %s: %w", c.Name, err)
		}
	}
	return key, priority, nil
}
