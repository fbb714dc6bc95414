package app

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
)

// An output is the format in which a command prints its result.
type output struct{ format string }

// The formats.
const (
	asTable = "table"
	asJSON  = "json"
	asJSONL = "jsonl"
)

// newOutput adds the flag --output to a command. The default is a table.
func newOutput(cmd *cobra.Command) *output {
	o := &output{}
	cmd.Flags().StringVarP(&o.format, "output", "o", asTable,
		"table, json, or jsonl: one object a line")
	completeWords(cmd, "output", asTable, asJSON, asJSONL)
	return o
}

// check returns an error for an unknown format. A command without formats has a nil output.
func (o *output) check() error {
	if o == nil || o.format == asTable || o.format == asJSON || o.format == asJSONL {
		return nil
	}
	return &perdure.Error{Code: journal.CodeInvalid, Message: "there is no output format " +
		o.format, Hint: "-o is table, json or jsonl"}
}

// A column is a column of a table: its heading, and the function that returns its cell for
// a record.
type column[T any] struct {
	name string
	of   func(T) string
}

// list prints records as a table, as one JSON array, or as one JSON object a line.
func list[T any](o *output, w io.Writer, records []T, columns []column[T]) error {
	switch o.format {
	case asJSON:
		if records == nil {
			records = []T{}
		}
		return printJSON(w, records)
	case asJSONL:
		return lines(w, records)
	}
	return table(w, records, columns)
}

// sayMore writes for people that a list has only the records up to its limit, if there may be more.
func sayMore(cmd *cobra.Command, more bool) {
	if more {
		fmt.Fprintln(cmd.ErrOrStderr(), "there may be more: --limit 0 lists all")
	}
}

func table[T any](w io.Writer, records []T, columns []column[T]) error {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	rows := [][]string{names}
	for _, r := range records {
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = plain(c.of(r))
		}
		rows = append(rows, cells)
	}
	return align(w, rows)
}

// align prints rows with their cells in columns.
func align(w io.Writer, rows [][]string) error {
	var widths []int
	for _, cells := range rows {
		for i, cell := range cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	b := bufio.NewWriter(w)
	for _, cells := range rows {
		blanks := 0 // before the next cell that is not empty
		for i, cell := range cells {
			if cell != "" {
				fmt.Fprintf(b, "%*s%s", blanks, "", cell)
				blanks = 0
			}
			blanks += widths[i] - utf8.RuneCountInString(cell) + 2
		}
		fmt.Fprintln(b)
	}
	return b.Flush()
}

func lines[T any](w io.Writer, records []T) error {
	b := bufio.NewWriter(w)
	e := json.NewEncoder(escaper{b})
	e.SetEscapeHTML(false)
	for _, r := range records {
		if err := e.Encode(r); err != nil {
			return err
		}
	}
	return b.Flush()
}

// one prints one record as JSON, or as text, which the caller writes.
func one[T any](o *output, w io.Writer, record T, text func(io.Writer) error) error {
	switch o.format {
	case asJSON:
		return printJSON(w, record)
	case asJSONL:
		return lines(w, []T{record})
	}
	return text(w)
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(escaper{w})
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// An escaper writes JSON with \u escapes for unprintable characters. JSON allows some of
// them, and a terminal takes some of them as commands.
type escaper struct{ w io.Writer }

func (e escaper) Write(p []byte) (int, error) {
	if !bytes.ContainsFunc(p, unprintable) {
		return e.w.Write(p)
	}
	var b bytes.Buffer
	for _, r := range string(p) {
		if !unprintable(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	if _, err := e.w.Write(b.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) && !strings.ContainsRune("\n\r\t", r) }

// fields prints names and values, one pair a line. Empty values are left out.
func fields(w io.Writer, pairs ...string) error {
	var rows [][]string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			rows = append(rows, []string{pairs[i], plain(pairs[i+1])})
		}
	}
	return align(w, rows)
}

// longest limits the characters of a text in a table.
const longest = 200

// plain returns the text for a cell of a table: cleaned, and at most longest characters.
func plain(s string) string {
	long := false
	if len(s) > longest*utf8.UTFMax {
		s, long = s[:longest*utf8.UTFMax], true
	}
	clean := clean(s)
	if r := []rune(clean); long || len(r) > longest {
		return string(r[:min(len(r), longest)-1]) + "…"
	}
	return clean
}

// clean returns the text for a terminal: on one line, and without characters that a
// terminal takes as commands.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\r', r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// moment returns a time in UTC as text, and nothing for the zero time.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// took returns a duration as text, to three digits.
func took(d time.Duration) string {
	switch {
	case d < 0:
		return ""
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// terminal reports whether w is a terminal on which a line can be overwritten.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// The colours of statuses.
const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	noHue  = "\x1b[0m"
)

// hued returns the status in its colour. It has no colour if w is no terminal or NO_COLOR
// is set, see https://no-color.org.
func hued(w io.Writer, status string) string {
	if os.Getenv("NO_COLOR") != "" || !terminal(w) {
		return status
	}
	s, _ := journal.ParseStatus(status)
	hue := yellow
	switch {
	case s.IsSuccess():
		hue = green
	case s.IsTerminal() && s != journal.ContinuedAsNew, s == journal.Suspended,
		s == journal.CompensationFailed:
		hue = red
	}
	return hue + status + noHue
}

// cut shortens text to the width of the terminal.
func cut(w io.Writer, text string) string {
	f, ok := w.(*os.File)
	if !ok {
		return text
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if r := []rune(text); err == nil && width > 1 && len(r) >= width {
		return string(r[:width-2]) + "…"
	}
	return text
}
