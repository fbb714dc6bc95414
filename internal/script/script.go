// Package script runs the commands of a script or of a document, as a reader would type them, and
// compares their output with the text beside them.
package script

import (
	"regexp"
	"strings"
)

// A Command is a command of a script, with its expected output.
type Command struct {
	Line int
	Text string
	Want []string
	Only string // what the command is for: SQLite, PostgreSQL or file; empty for all
}

var exits = regexp.MustCompile(`\s+# exit (\d+)$`)

// HasCode reports whether the command says its exit code: "# exit 3" at its end.
func (c Command) HasCode() bool { return exits.MatchString(c.Text) }

// only matches the line that begins a part for one store, or again one for all. The part goes on to
// the next such line, or to the end. A part for a file is not for a server that has the file.
var only = regexp.MustCompile(`^# (?:Only (\w+)|For all):`)

// Parse returns the commands of a script, whose first line has this number. A line that begins with
// "$ " is a command. The lines after it are its output.
func Parse(script string, first int) []Command {
	var all []Command
	of := ""
	for i, line := range strings.Split(strings.TrimRight(script, "\n"), "\n") {
		if m := only.FindStringSubmatch(line); m != nil {
			of = m[1]
		}
		if text, ok := strings.CutPrefix(line, "$ "); ok {
			all = append(all, Command{Line: first + i, Text: text, Only: of})
		} else if len(all) > 0 && !strings.HasPrefix(line, "# ") {
			all[len(all)-1].Want = append(all[len(all)-1].Want, line)
		}
	}
	for i := range all {
		for n := len(all[i].Want); n > 0 && all[i].Want[n-1] == ""; n-- {
			all[i].Want = all[i].Want[:n-1]
		}
	}
	return all
}

// Blocks returns the commands of all console blocks of a document.
func Blocks(document string) []Command {
	var all []Command
	lines := strings.Split(document, "\n")
	for i := 0; i < len(lines); i++ {
		if lines[i] != "```console" {
			continue
		}
		first := i + 1
		for i++; i < len(lines) && lines[i] != "```"; i++ {
		}
		all = append(all, Parse(strings.Join(lines[first:i], "\n"), first+1)...)
	}
	return all
}

// like reports whether text matches the lines. Within a line, … matches any text. A line
// with only … matches any number of lines.
func like(text string, want []string) bool {
	var b strings.Builder
	b.WriteString(`^`)
	for _, line := range want {
		if strings.TrimSpace(line) == "…" {
			b.WriteString(`(?:.*\n)*?`)
			continue
		}
		for i, part := range strings.Split(line, "…") {
			if i > 0 {
				b.WriteString(`.*`)
			}
			b.WriteString(spaces.ReplaceAllString(regexp.QuoteMeta(part), ` +`))
		}
		b.WriteString(` *\n`)
	}
	b.WriteString(`$`)
	return regexp.MustCompile(b.String()).MatchString(strings.TrimRight(text, "\n") + "\n")
}

// spaces matches the space between two columns, whose width depends on the cells.
var spaces = regexp.MustCompile(` {2,}`)
