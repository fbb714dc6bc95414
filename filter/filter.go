// Package filter reads and writes queries for runs as text: one grammar for the command line, for
// programs and for what is done with many runs.
//
//	status=FAILED,TIMED_OUT workflow=order since=24h error~"card declined" attr.customer=4711
//
// A text is a list of conditions, separated by spaces. A run must meet all of them. A condition
// that has several values, separated by commas, is met by any of them. The conditions are:
//
//	status=FAILED,TIMED_OUT   statuses, in upper or lower case
//	workflow=order,refund     workflows
//	pattern=SAGA              WORKFLOW, SAGA, TCC, MACHINE or ORCHESTRATOR; a graph is a WORKFLOW
//	id=ord-1001               a workflow ID
//	parent=ord-1001           children of the run with that run ID or workflow ID
//	open                      runs that have not ended
//	created>=T created<T      when a run was created; also > and <=
//	since=T until=T           the same as created>=T and created<T
//	ended>=T ended<T          when a run ended; also > and <=
//	stale=T                   open runs whose journals have got no entry since T
//	error~TEXT                a part of the failure; upper and lower case of A to Z are the same
//	attr.NAME=VALUE           a search attribute
//
// T is a time (2026-11-01T09:00:00Z), a day (2026-11-01, which begins at midnight UTC), or how long
// ago (90s, 24h, 7d, 2w). A value with a space, a comma, a quote or a backslash stands in double
// quotes, with the escapes of Go.
package filter

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/near"
	"github.com/perdure/perdure/journal"
)

// MaxText is the maximum length of a text in bytes. MaxValues is the maximum number of values of
// one condition.
const (
	MaxText   = 64 << 10
	MaxValues = 1000
)

// Parse returns the query of a text. A time that is written as how long ago counts back from now.
// An empty text selects all runs. The error is a [perdure.Error] of code invalid. It names the
// place of the mistake and, as a hint, the word that may have been meant.
func Parse(text string, now time.Time) (perdure.Query, error) {
	p := parser{text: text, now: now, seen: map[string]bool{}}
	switch {
	case len(text) > MaxText:
		return perdure.Query{}, invalid(fmt.Sprintf("a filter of %d bytes is not valid: at most %d",
			len(text), MaxText), "")
	case !utf8.ValidString(text):
		return perdure.Query{}, invalid("a filter that is no UTF-8 is not valid", "")
	}
	for {
		p.spaces()
		if p.at == len(p.text) {
			return p.query, nil
		}
		if err := p.condition(); err != nil {
			return perdure.Query{}, err
		}
	}
}

func invalid(message, hint string) error {
	return &perdure.Error{Code: journal.CodeInvalid, Op: "filter", Message: message, Hint: hint}
}

// A parser reads a text from the beginning to the end.
type parser struct {
	text  string
	at    int // the next byte
	now   time.Time
	query perdure.Query
	seen  map[string]bool // conditions that were read
}

// A value is a value of a condition, and its place.
type value struct {
	text string
	at   int
}

// A clause is a condition as it is written.
type clause struct {
	key, op string
	at      int
	values  []value
}

// refuse returns the error that a part of the text is not valid.
func (p *parser) refuse(at int, what, allowed, hint string) error {
	if len(what) > 60 {
		what = strings.ToValidUTF8(what[:60], "") + "…"
	}
	return invalid(fmt.Sprintf("%s at character %d of the filter is not valid: %s",
		strconv.Quote(what), utf8.RuneCountInString(p.text[:at])+1, allowed), hint)
}

func (p *parser) spaces() {
	p.at += len(p.text[p.at:]) - len(strings.TrimLeftFunc(p.text[p.at:], unicode.IsSpace))
}

// word reads up to the next byte that ends it.
func (p *parser) word(ends func(rune) bool) string {
	rest := p.text[p.at:]
	if n := strings.IndexFunc(rest, ends); n >= 0 {
		rest = rest[:n]
	}
	p.at += len(rest)
	return rest
}

// condition reads one condition into the query.
func (p *parser) condition() error {
	c := clause{at: p.at}
	operator := func(r rune) bool { return strings.ContainsRune("=~<>", r) }
	c.key = p.word(func(r rune) bool { return operator(r) || unicode.IsSpace(r) })
	c.op = p.word(func(r rune) bool { return !operator(r) })
	k, err := p.kindOf(&c)
	if err != nil {
		return err
	}
	if !slices.Contains(k.ops, c.op) {
		return p.refuse(c.at, c.key+c.op, "allowed is "+k.form, "")
	}
	if c.op != "" {
		if err := p.values(&c); err != nil {
			return err
		}
	}
	if len(c.values) > 1 && !k.many {
		return p.refuse(c.values[1].at, c.values[1].text, c.key+" has one value",
			"a value with a comma stands in double quotes")
	}
	name := c.key
	if k.ranged {
		name += strings.TrimSuffix(c.op, "=")
	}
	if p.seen[name] {
		return p.refuse(c.at, c.key+c.op, "it is there already", k.again)
	}
	p.seen[name] = true
	return k.read(p, &c)
}

// values reads the values of a condition: at least one.
func (p *parser) values(c *clause) error {
	for {
		v := value{at: p.at}
		if quoted, err := strconv.QuotedPrefix(p.text[p.at:]); err == nil && quoted[0] == '"' {
			p.at += len(quoted)
			v.text, _ = strconv.Unquote(quoted)
		} else {
			v.text = p.word(func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
			example := "for example " + c.key + c.op + `"two words"`
			switch {
			case v.text == "":
				return p.refuse(c.at, c.key+c.op, "a value is missing", example)
			case strings.ContainsAny(v.text, `"\`):
				return p.refuse(v.at, v.text, "a quote does not end, or a quote or backslash "+
					"stands outside of quotes", example)
			}
		}
		if !utf8.ValidString(v.text) || strings.ContainsRune(v.text, 0) {
			return p.refuse(v.at, v.text, "allowed is UTF-8 without zero bytes", "")
		}
		c.values = append(c.values, v)
		rest := p.text[p.at:]
		next, _ := utf8.DecodeRuneInString(rest)
		switch {
		case rest == "" || unicode.IsSpace(next):
			return nil
		case next != ',':
			return p.refuse(p.at, string(next), "a space or a comma follows a value", "")
		case len(c.values) == MaxValues:
			return p.refuse(p.at, ",", fmt.Sprintf("at most %d values", MaxValues), "")
		}
		p.at++
	}
}

// A kind is one kind of conditions.
type kind struct {
	form   string // an example
	ops    []string
	many   bool // it may have several values
	ranged bool // it may be there once for each direction
	again  string
	read   func(*parser, *clause) error
}

const oneList = "a list is status=FAILED,TIMED_OUT"

var is, edges = []string{"="}, []string{">=", "<", ">", "<="}

// kinds are the kinds of conditions by their keys. The kind of search attributes has the key attr.
var kinds = map[string]kind{
	"status":   {form: "status=FAILED", ops: is, many: true, again: oneList, read: readStatus},
	"workflow": {form: "workflow=order", ops: is, many: true, again: oneList, read: readWorkflow},
	"pattern":  {form: "pattern=SAGA", ops: is, many: true, again: oneList, read: readPattern},
	"id":       {form: "id=ord-1001", ops: is, read: readID},
	"parent":   {form: "parent=ord-1001", ops: is, read: readParent},
	"open":     {form: "open", ops: []string{""}, read: readOpen},
	"created":  {form: "created>=24h or created<24h", ops: edges, ranged: true, read: readCreated},
	"since":    {form: "since=24h", ops: is, read: readSince},
	"until":    {form: "until=24h", ops: is, read: readSince},
	"ended":    {form: "ended>=24h or ended<24h", ops: edges, ranged: true, read: readEnded},
	"stale":    {form: "stale=1h", ops: is, read: readStale},
	"error":    {form: `error~"card declined"`, ops: []string{"~"}, read: readError},
	"attr":     {form: "attr.customer=4711", ops: is, read: readAttribute},
}

// kindOf returns the kind of a condition.
func (p *parser) kindOf(c *clause) (kind, error) {
	key := c.key
	if name, ok := strings.CutPrefix(key, "attr."); ok && journal.ValidName(name) {
		key = "attr"
	} else if ok || key == "attr" {
		return kind{}, p.refuse(c.at, key, "allowed is attr.NAME=VALUE", "a name has the form "+
			"[A-Za-z0-9._:-]{1,255}")
	}
	if k, ok := kinds[key]; ok {
		return k, nil
	}
	var keys []string
	for key := range kinds {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	keys[slices.Index(keys, "attr")] = "attr.NAME"
	return kind{}, p.refuse(c.at, c.key, "allowed are "+strings.Join(keys, ", "),
		near.Hint(c.key, keys))
}

func readStatus(p *parser, c *clause) error {
	for _, v := range c.values {
		name := strings.ToUpper(strings.ReplaceAll(v.text, "-", "_"))
		s, ok := journal.ParseStatus(name)
		if !ok {
			var names []string
			for _, s := range journal.Statuses() {
				names = append(names, s.String())
			}
			return p.refuse(v.at, v.text, "allowed are "+strings.Join(names, ", "),
				near.Hint(name, names))
		}
		p.query.Statuses = append(p.query.Statuses, s)
	}
	return nil
}

func readPattern(p *parser, c *clause) error {
	for _, v := range c.values {
		name := strings.ToUpper(v.text)
		pattern, ok := journal.ParsePattern(name)
		if !ok {
			var names []string
			for i := journal.PatternWorkflow; i.Valid(); i++ {
				names = append(names, i.String())
			}
			return p.refuse(v.at, v.text, "allowed are "+strings.Join(names, ", "),
				near.Hint(name, names))
		}
		p.query.Patterns = append(p.query.Patterns, pattern)
	}
	return nil
}

func readWorkflow(p *parser, c *clause) error {
	for _, v := range c.values {
		if !journal.ValidName(v.text) {
			return p.refuse(v.at, v.text, "allowed are names, [A-Za-z0-9._:-]{1,255}", "")
		}
		p.query.Workflows = append(p.query.Workflows, v.text)
	}
	return nil
}

func readID(p *parser, c *clause) error     { return p.id(c, &p.query.WorkflowID) }
func readParent(p *parser, c *clause) error { return p.id(c, &p.query.Parent) }

func (p *parser) id(c *clause, to *string) error {
	v := c.values[0]
	if !journal.ValidWorkflowID(v.text) {
		return p.refuse(v.at, v.text,
			"allowed are 1 to 255 bytes of printable UTF-8 without spaces", "")
	}
	*to = v.text
	return nil
}

func readOpen(p *parser, _ *clause) error {
	p.query.Open = true
	return nil
}

func readError(p *parser, c *clause) error {
	v := c.values[0]
	if v.text == "" || len(v.text) > journal.MaxError {
		return p.refuse(v.at, v.text, fmt.Sprintf("allowed are 1 to %d bytes", journal.MaxError),
			"")
	}
	p.query.Error = v.text
	return nil
}

func readAttribute(p *parser, c *clause) error {
	if p.query.Attributes == nil {
		p.query.Attributes = map[string]string{}
	}
	p.query.Attributes[strings.TrimPrefix(c.key, "attr.")] = c.values[0].text
	return nil
}

func readCreated(p *parser, c *clause) error {
	return p.edge(c, c.op, &p.query.CreatedFrom, &p.query.CreatedTo)
}

func readEnded(p *parser, c *clause) error {
	return p.edge(c, c.op, &p.query.EndedFrom, &p.query.EndedTo)
}

func readSince(p *parser, c *clause) error {
	op := map[string]string{"since": ">=", "until": "<"}[c.key]
	return p.edge(c, op, &p.query.CreatedFrom, &p.query.CreatedTo)
}

// edge reads one end of a range of time.
func (p *parser) edge(c *clause, op string, from, to *time.Time) error {
	t, err := p.time(c.values[0])
	if err != nil {
		return err
	}
	if op == ">" || op == "<=" {
		t = t.Add(1)
	}
	end := from
	if op[0] == '<' {
		end = to
	}
	if !end.IsZero() {
		return p.refuse(c.at, c.key+c.op, "that end of the range is there already", "")
	}
	*end = t
	return nil
}

func readStale(p *parser, c *clause) (err error) {
	p.query.Stale, err = p.time(c.values[0])
	return err
}

// layouts are the forms of a time.
var layouts = []string{time.RFC3339Nano, time.DateOnly, "2006-01-02T15:04", "2006-01-02T15:04:05"}

// time reads a time, a day or how long ago.
func (p *parser) time(v value) (time.Time, error) {
	for _, layout := range layouts {
		t, err := time.Parse(layout, v.text)
		if err == nil && t.Year() > 1678 && t.Year() < 2261 {
			return t.UTC(), nil
		}
	}
	if ago, ok := parseAgo(v.text); ok {
		if t := p.now.Add(-ago).Round(0).UTC(); t.Year() > 1678 {
			return t, nil
		}
	}
	return time.Time{}, p.refuse(v.at, v.text, "allowed are a time such as 2026-11-01T09:00:00Z, "+
		"a day such as 2026-11-01, and how long ago, such as 90s, 24h, 7d or 2w", "")
}

// parseAgo returns a duration that is not negative: as Go writes it, or whole days or weeks.
func parseAgo(s string) (time.Duration, bool) {
	for unit, day := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if digits, ok := strings.CutSuffix(s, unit); ok {
			n, err := strconv.ParseUint(digits, 10, 32)
			return time.Duration(n) * day, err == nil && n <= uint64(math.MaxInt64/day)
		}
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && d >= 0
}
