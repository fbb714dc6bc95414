package codec

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
)

// secretSize is the size of the secret of a key in bytes: AES-256 has such keys.
const secretSize = 32

// MaxKeyID is the longest ID of a key in bytes.
const MaxKeyID = 32

// Keys are the keys of a codec. The first one encrypts, and all decrypt. The zero value has none.
// Printed or logged in any way, they show their IDs only.
type Keys struct{ all []*key }

// MakeKey returns the text of a new key, as [ParseKeys] reads it: the ID, a colon, and a random
// secret. The text is a secret.
func MakeKey(id string) (string, error) {
	if err := checkID(id); err != nil {
		return "", err
	}
	secret := make([]byte, secretSize)
	rand.Read(secret) // it never fails
	return id + ":" + base64.StdEncoding.EncodeToString(secret), nil
}

// ParseKeys returns the keys of a text. Each has the form ID:SECRET, where the secret is 32 bytes
// in base64. Between keys there is white space, such as the end of a line. A line that begins with
// # is a comment. IDs have 1 to 32 letters, digits, dots, dashes and underscores. A text without a
// key is an error, so that a configuration that got lost does not switch the encryption off. No
// error has a part of a secret.
func ParseKeys(text string) (Keys, error) {
	var ks Keys
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for _, field := range strings.Fields(line) {
			k, err := parseKey(field)
			if err == nil && ks.find(k.id) != nil {
				err = errors.New("it is there twice")
			}
			if err != nil {
				return Keys{}, fmt.Errorf("codec: key %d: %w", len(ks.all)+1, err)
			}
			ks.all = append(ks.all, k)
		}
	}
	if len(ks.all) == 0 {
		return Keys{}, errors.New("codec: there is no key: a key has the form ID:SECRET")
	}
	return ks, nil
}

func parseKey(text string) (*key, error) {
	id, encoded, ok := strings.Cut(text, ":")
	if !ok {
		return nil, errors.New("it does not have the form ID:SECRET")
	}
	if err := checkID(id); err != nil {
		return nil, errors.New("its ID is not valid")
	}
	secret, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(secret) != secretSize {
		return nil, fmt.Errorf("its secret is not %d bytes in base64", secretSize)
	}
	return newKey(id, [secretSize]byte(secret))
}

// checkID returns an error for an ID that is not valid. Only [MakeKey] shows it: a text that is
// read as an ID may be a secret.
func checkID(id string) error {
	rest := strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
	if id == "" || len(id) > MaxKeyID || rest != "" {
		return fmt.Errorf("codec: the key ID %q is not valid: allowed are 1 to %d letters, "+
			"digits, dots, dashes and underscores", id, MaxKeyID)
	}
	return nil
}

// KeysFromFile returns the keys in a file, as [ParseKeys] does. The error names the file.
func KeysFromFile(path string) (Keys, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Keys{}, fmt.Errorf("codec: the file of the keys: %w", err)
	}
	ks, err := ParseKeys(string(text))
	if err != nil {
		return Keys{}, fmt.Errorf("%s: %w", path, err)
	}
	return ks, nil
}

// KeysFromEnv returns the keys in an environment variable, as [ParseKeys] does. The error names the
// variable.
func KeysFromEnv(name string) (Keys, error) {
	ks, err := ParseKeys(os.Getenv(name))
	if err != nil {
		return Keys{}, fmt.Errorf("%s: %w", name, err)
	}
	return ks, nil
}

// IDs returns the IDs of the keys, the one that encrypts first.
func (ks Keys) IDs() []string {
	ids := make([]string, len(ks.all))
	for i, k := range ks.all {
		ids[i] = k.id
	}
	return ids
}

// writer returns the key that encrypts; nil if there is none.
func (ks Keys) writer() *key {
	if len(ks.all) == 0 {
		return nil
	}
	return ks.all[0]
}

func (ks Keys) find(id string) *key {
	for _, k := range ks.all {
		if k.id == id {
			return k
		}
	}
	return nil
}

// String returns the IDs.
func (ks Keys) String() string { return "keys " + strings.Join(ks.IDs(), ", ") }

// Format writes String, whatever the verb is.
func (ks Keys) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(ks.String())) }

// MarshalText returns String.
func (ks Keys) MarshalText() ([]byte, error) { return []byte(ks.String()), nil }

// LogValue returns String.
func (ks Keys) LogValue() slog.Value { return slog.StringValue(ks.String()) }
