package codec_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/codec"
)

// made returns the text of a new key and its secret.
func made(t *testing.T, id string) (text, secret string) {
	t.Helper()
	text, err := codec.MakeKey(id)
	if err != nil {
		t.Fatal(err)
	}
	_, secret, _ = strings.Cut(text, ":")
	return text, secret
}

// spec: B-19
func TestKeysAreRead(t *testing.T) {
	a, _ := made(t, "2026-01")
	b, _ := made(t, "2025.12_x")
	path := filepath.Join(t.TempDir(), "keys")
	text := "# the first one encrypts\n" + a + "\n\n  # and before\n" + b + "\r\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PERDURE_TEST_KEYS", a+" "+b)
	for name, read := range map[string]func() (codec.Keys, error){
		"text": func() (codec.Keys, error) { return codec.ParseKeys(text) },
		"file": func() (codec.Keys, error) { return codec.KeysFromFile(path) },
		"env":  func() (codec.Keys, error) { return codec.KeysFromEnv("PERDURE_TEST_KEYS") },
	} {
		keys, err := read()
		if err != nil || !slices.Equal(keys.IDs(), []string{"2026-01", "2025.12_x"}) {
			t.Errorf("%s: %v, %v", name, keys.IDs(), err)
		}
	}
	if again, _ := made(t, "2026-01"); again == a {
		t.Error("two keys are the same")
	}
}

// spec: B-18, B-19
func TestKeysThatAreNotValidAreRefusedWithoutTheirSecret(t *testing.T) {
	good, secret := made(t, "k")
	for text, want := range map[string]string{
		"": "no key", " \n# " + good: "no key", secret: "key 1: it does not have the form",
		good + "\n" + secret[:20] + "?": "key 2: it does not have", "k:" + secret[:40]: "32 bytes",
		"k:" + secret + "x": "32 bytes", secret + ":k": "its ID is not valid",
		":" + secret: "its ID is not valid", good + " " + good: "key 2: it is there twice",
		strings.Repeat("k", 33) + ":" + secret: "its ID is not valid",
	} {
		_, err := codec.ParseKeys(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if strings.Contains(err.Error(), secret[:10]) {
			t.Errorf("the error has a part of the secret: %v", err)
		}
	}
	t.Setenv("PERDURE_TEST_KEYS", "")
	_, err := codec.KeysFromEnv("PERDURE_TEST_KEYS")
	if err == nil || !strings.Contains(err.Error(), "PERDURE_TEST_KEYS") {
		t.Errorf("of an empty variable: %v", err)
	}
	if _, err := codec.KeysFromFile(filepath.Join(t.TempDir(), "gone")); err == nil {
		t.Error("a file that is not there has keys")
	}
	if _, err := codec.MakeKey("a b"); err == nil || !strings.Contains(err.Error(), `"a b"`) {
		t.Errorf("of an odd ID: %v", err)
	}
}

// spec: B-18, B-19
func TestKeysShowNoSecret(t *testing.T) {
	text, secret := made(t, "k")
	keys, err := codec.ParseKeys(text)
	if err != nil {
		t.Fatal(err)
	}
	raw := make([]byte, 0, 64)
	options := codec.Options{Keys: keys}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "keys", keys, "options", options)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "keys", keys, "options", options)
	asJSON, err := json.Marshal(options)
	if err != nil {
		t.Fatal(err)
	}
	raw = append(append(raw, log.Bytes()...), asJSON...)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t"} {
		for _, v := range []any{keys, &keys, options, &options, codec.New(options)} {
			raw = fmt.Appendf(raw, verb+"\n", v)
		}
	}
	decoded := decodeBase64(t, secret)
	for _, form := range []string{
		secret[:8], fmt.Sprintf("%x", decoded[:4]), fmt.Sprintf("%X", decoded[:4]),
		fmt.Sprint(decoded[0], decoded[1], decoded[2]), string(decoded[:4]),
		fmt.Sprintf("%#x, %#x", decoded[0], decoded[1]),
	} {
		if bytes.Contains(raw, []byte(form)) {
			t.Errorf("%q of the secret is in\n%s", form, raw)
		}
	}
	if !bytes.Contains(raw, []byte("keys k")) {
		t.Errorf("no ID is in\n%s", raw)
	}
}
