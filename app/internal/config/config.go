// Package config reads the configuration of a server from a file, the environment and flags, in
// growing strength, over the defaults.
//
// Every key has one name, such as listen.address. In the file it is a key of YAML, nested or with
// dots. In the environment it is in capitals, as PERDURE_LISTEN_ADDRESS, unless the table of keys
// has another name. A list is separated by commas there. A key that is not in the table is refused,
// wherever it stands.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/place"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/server/auth"
)

// A Config is the configuration of a server.
type Config struct {
	Store  string
	Listen Listen
	Tokens []auth.Credential
	Redact []string
	Audit  string // the file of the audit; empty for the log

	Encryption    Encryption
	Engine        perdure.Options // without what is not configured
	Orchestrators Orchestrators
	Alerts        Alerts
	Log           Log
	Switches      Switches
	Traces        bool
	Stale         time.Duration
}

// Listen is how the API is reached.
type Listen struct {
	Address     string // host:port, or off
	Hosts       []string
	Certificate string // the files of a TLS certificate and its key
	Key         string
	Prefix      string
}

// Orchestrators is where the program keeps the states of orchestrators.
type Orchestrators struct {
	Redis  string        // the URL of a Redis; empty for none
	Prefix string        // of its keys
	TTL    time.Duration // how long states of what has finished are kept; 0 for ever
}

// Alerts are the options of alerts.
type Alerts struct {
	Secret   string
	SMTP     string
	Internal []netip.Prefix
}

// Log is the log on stderr.
type Log struct {
	Format string // text, json or off
	Level  slog.Level
}

// Switches are parts that can be switched off.
type Switches struct{ API, Page, Health, Metrics, MCP, DeadLetters, Recovery bool }

// Off is the address of an API that does not listen.
const Off = "off"

// A Value is the value of a key, and where it comes from.
type Value struct {
	Key  *Key
	Text string // as it was written; of a secret, whether it is set
	From string // default, a place in a file, a variable or a flag
}

// Default returns the text of the default, as Text has that of the value.
func (v Value) Default() string { return v.Key.shown(source{text: v.Key.Default}) }

// A source is the text of a key in one of the places.
type source struct {
	text string
	list []string // of a list in a file; nil for a text
	from string
}

// byDefault is the place of a value that nobody has set.
const byDefault = "default"

// Load reads the configuration. The file may be empty. The flags are texts by the names of their
// keys. The error names the place that is not valid, and what is allowed there.
func Load(file string, environment []string, flags map[string]string) (Config, []Value, error) {
	found := map[string]source{}
	if file != "" {
		if err := readFile(file, found); err != nil {
			return Config{}, nil, err
		}
	}
	if err := readEnvironment(environment, found); err != nil {
		return Config{}, nil, err
	}
	for name, text := range flags {
		k := byName[name]
		found[name] = source{text: text, from: "--" + k.Flag}
	}
	var c Config
	var all []Value
	for i := range table {
		k := &table[i]
		s, ok := found[k.Name]
		if !ok {
			s = source{text: k.Default, from: byDefault}
		}
		if err := k.load(&c, s); err != nil {
			return Config{}, nil, err
		}
		all = append(all, Value{k, k.shown(s), s.from})
	}
	return c, all, c.check()
}

// load sets the key to what a source has. The error names the place.
func (k *Key) load(c *Config, s source) error {
	if err := k.apply(c, s); err != nil {
		return refuse(s.from+": "+k.Name+" is not valid: "+err.Error(), k.About)
	}
	return nil
}

func (k *Key) apply(c *Config, s source) error {
	if k.Secret {
		text, err := secret(s.text)
		if err != nil {
			return err
		}
		if text == "" && s.from != byDefault {
			return errors.New("it is set, and empty")
		}
		s.text = text
	}
	items := s.list
	if items == nil && strings.TrimSpace(s.text) != "" {
		for item := range strings.SplitSeq(s.text, ",") {
			items = append(items, strings.TrimSpace(item))
		}
	}
	if !k.List && s.list != nil {
		return fmt.Errorf("it is one text, not a list")
	}
	return k.set(c, s.text, items)
}

// secret returns the text of a secret. One that begins with file: is the content of that file.
func secret(text string) (string, error) {
	path, is := strings.CutPrefix(text, "file:")
	if !is {
		return text, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if text = strings.TrimSpace(string(data)); text == "" {
		return "", fmt.Errorf("the file %s is empty", path)
	}
	return text, nil
}

// shown returns the text of a value for people. A secret is never shown.
func (k *Key) shown(s source) string {
	text := s.text
	if s.list != nil {
		text = strings.Join(s.list, ", ")
	}
	if k.Secret && text != "" {
		return "[set]"
	}
	if k.show != nil {
		return k.show(text)
	}
	if k.Env == place.Env { // it may have a password in it
		at, err := place.Parse("", text)
		if err != nil {
			return "[not valid]"
		}
		return at.String()
	}
	return text
}

// check refuses what does not go together.
func (c *Config) check() error {
	if !c.Switches.Recovery {
		c.Engine.MaxCrashes = 1
	}
	if _, err := c.Engine.Backpressure.Policy(); err != nil {
		return refuse("backpressure is not valid: "+err.Error(),
			"each strategy has numbers of its own, and an application may register strategies")
	}
	switch {
	case (c.Listen.Certificate == "") != (c.Listen.Key == ""):
		return refuse("listen.certificate and listen.key go together", "set both, or neither")
	case c.Listen.Address != Off && len(c.Tokens) == 0 && !isLoopback(c.Listen.Address):
		return refuse("the API would listen on "+c.Listen.Address+" without credentials",
			"make a token with `perdure tokens new NAME --role operator` and set auth.tokens, or "+
				"listen on 127.0.0.1")
	}
	names := map[string]bool{}
	for _, t := range c.Tokens {
		if names[t.Name] {
			return refuse("auth.tokens has "+t.Name+" twice", "give each token a name of its own")
		}
		names[t.Name] = true
	}
	return nil
}

// isLoopback reports whether an address is reached from its own machine only.
func isLoopback(address string) bool {
	host := address
	if i := strings.LastIndexByte(address, ':'); i >= 0 {
		host = strings.Trim(address[:i], "[]")
	}
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

func refuse(message, hint string) error {
	return &perdure.Error{
		Code: journal.CodeInvalid, Op: "configuration", Message: message, Hint: hint,
	}
}

// nearest returns the known names that begin like an unknown one, for a hint.
func nearest(name string) string {
	part, _, _ := strings.Cut(name, ".")
	var near []string
	for i := range table {
		if strings.HasPrefix(table[i].Name, part+".") || table[i].Name == part {
			near = append(near, table[i].Name)
		}
	}
	if len(near) == 0 {
		return "perdure serve --print-config lists the keys"
	}
	return "there are " + strings.Join(near[:min(len(near), 8)], ", ")
}

// Keys returns all keys, in the order in which they are documented.
func Keys() []Key { return slices.Clone(table) }
