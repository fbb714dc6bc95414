package config

import (
	std "flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/perdure/perdure/server/auth"
)

var update = std.Bool("update", false, "write the table of keys into docs/configuration.md")

// page is the page of users about the keys.
const page = "../../../docs/configuration.md"

// keyRows matches the rows of the table of keys.
var keyRows = regexp.MustCompile("(?m)^(?:\\| `[a-z_.]+` \\|.*\n)+")

// example matches the file of the page that has every key.
var example = regexp.MustCompile("(?s)\n```yaml\n(.*?)```\n")

// row returns the row of a key in the table.
func (k *Key) row() string {
	code := func(text string) string {
		if text == "" {
			return ""
		}
		return "`" + text + "`"
	}
	option, about := k.Flag, k.About
	if option != "" {
		option = "--" + option
	}
	if k.List {
		about += "; a list"
	}
	if k.Secret {
		about += "; a secret"
	}
	cells := []string{code(k.Name), code(k.Env), code(option), code(k.Default), about}
	return strings.Join(strings.Fields("| "+strings.Join(cells, " | ")+" |"), " ") + "\n"
}

// The table of the page is that of the code: go test ./app/internal/config -update writes it.
//
// spec: P-13
func TestThePageHasEveryKey(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for i := range table {
		rows.WriteString(table[i].row())
	}
	if *update {
		changed := keyRows.ReplaceAllLiteral(text, []byte(rows.String()))
		if err := os.WriteFile(page, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		text = changed
	}
	found := keyRows.FindAllString(string(text), -1)
	if len(found) != 1 || found[0] != rows.String() {
		t.Errorf("%s has\n%s\nand not\n%s\nwrite it: go test ./app/internal/config -update", page,
			strings.Join(found, "\n"), &rows)
	}
}

// The file of the page is accepted, and sets every key.
//
// spec: P-13
func TestTheExampleOfThePageSetsEveryKey(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	m := example.FindSubmatch(text)
	if m == nil {
		t.Fatalf("%s has no block of yaml", page)
	}
	folder := t.TempDir()
	for _, name := range []string{"keys", "alert-secret", "smtp", "redis"} {
		text := []byte("redis://127.0.0.1:6379\n") // the others may have any text
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := write(t, strings.ReplaceAll(string(m[1]), "file:/etc/shop", "file:"+folder))
	c, values, err := Load(file, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		if !strings.HasPrefix(v.From, file) {
			t.Errorf("%s is from %s: the example does not set it", v.Key.Name, v.From)
		}
	}
	if len(c.Tokens) != 2 || c.Tokens[0].Role != auth.Operator || len(c.Listen.Hosts) != 1 ||
		len(c.Engine.Retention.ByStatus) != 2 || len(c.Alerts.Internal) != 1 {
		t.Errorf("%+v", c)
	}
}
