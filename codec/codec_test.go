package codec_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/perdure/perdure/codec"
)

func base64Of(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

func encode(t testing.TB, c codec.Codec, data, place string) []byte {
	t.Helper()
	stored, err := c.Encode([]byte(data), []byte(place))
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// samples are payloads of all forms.
func samples() map[string]string {
	noise := make([]byte, 5000)
	r := rand.NewChaCha8([32]byte{})
	_, _ = r.Read(noise)
	return map[string]string{
		"empty": "", "number": "7", "text": `{"name":"Ada"}`,
		"long": strings.Repeat(`{"name":"Ada"},`, 1000), "noise": string(noise),
		"prefix": codec.Prefix, "nearly the prefix": "\x01" + codec.Prefix[1:],
		"a form": codec.Prefix + "\x02\x01k and so on",
	}
}

// spec: B-19
func TestPayloadsAreReadAsTheyWere(t *testing.T) {
	codecs := map[string]codec.Codec{
		"nothing": codec.New(codec.Options{CompressFrom: -1}),
		"smaller": codec.New(codec.Options{}),
		"sealed":  codec.New(codec.Options{Keys: keysOf(t, "k"), CompressFrom: -1}),
		"both":    codec.New(codec.Options{Keys: keysOf(t, "k")}),
	}
	for name, c := range codecs {
		for what, data := range samples() {
			stored := encode(t, c, data, "here")
			got, err := c.Decode(stored, []byte("here"))
			if err != nil || string(got) != data {
				t.Errorf("%s: %s is %q, %v", name, what, got, err)
			}
			isClear := bytes.Equal(stored, []byte(data))
			compressed := what == "long" && (name == "smaller" || name == "both")
			escaped := strings.Contains(data, codec.Prefix[1:])
			sealed := name == "sealed" || name == "both"
			if isClear == (compressed || escaped || sealed) {
				t.Errorf("%s: that %s is stored as it is: %v", name, what, isClear)
			}
			if compressed && len(stored) > len(data)/10 {
				t.Errorf("%s: %s has %d bytes of %d", name, what, len(stored), len(data))
			}
			if sealed && len(data) > 5 && bytes.Contains(stored, []byte(data)) {
				t.Errorf("%s: %s is in what is stored", name, what)
			}
		}
	}
}

// spec: B-19
func TestWhatWasWrittenInClearIsRead(t *testing.T) {
	c := codec.New(codec.Options{Keys: keysOf(t, "k")})
	for _, before := range []codec.Codec{
		codec.New(codec.Options{CompressFrom: -1}), codec.New(codec.Options{}),
	} {
		for what, data := range samples() {
			got, err := c.Decode(encode(t, before, data, "here"), []byte("here"))
			if err != nil || string(got) != data {
				t.Errorf("%s is %q, %v", what, got, err)
			}
		}
	}
}

// spec: B-19
func TestASealedPayloadThatWasChangedIsNotRead(t *testing.T) {
	c := codec.New(codec.Options{Keys: keysOf(t, "k")})
	stored := encode(t, c, `{"name":"Ada"}`, "here")
	if again := encode(t, c, `{"name":"Ada"}`, "here"); bytes.Equal(again, stored) {
		t.Error("two encodings are the same")
	}
	for i := range stored {
		for bit := range 8 {
			odd := bytes.Clone(stored)
			odd[i] ^= 1 << bit
			if got, err := c.Decode(odd, []byte("here")); err == nil {
				t.Errorf("bit %d of byte %d is another one, and it is read as %q", bit, i, got)
			}
		}
	}
	for n := len(codec.Prefix); n < len(stored); n++ {
		if got, err := c.Decode(stored[:n], []byte("here")); err == nil {
			t.Errorf("cut off after %d bytes it is read as %q", n, got)
		}
	}
	if got, err := c.Decode(stored, []byte("there")); err == nil {
		t.Errorf("at another place it is read as %q", got)
	}
}

// spec: B-19
func TestKeysAreRotated(t *testing.T) {
	var stored [][]byte
	for _, ids := range [][]string{{"a"}, {"b", "a"}, {"c", "a", "b"}} {
		c := codec.New(codec.Options{Keys: keysOf(t, ids...)})
		stored = append(stored, encode(t, c, `"Ada"`, "here"))
		for i, s := range stored {
			if got, err := c.Decode(s, []byte("here")); err != nil || string(got) != `"Ada"` {
				t.Errorf("with %v, payload %d is %q, %v", ids, i, got, err)
			}
		}
	}
	without := codec.New(codec.Options{Keys: keysOf(t, "c", "b")})
	_, err := without.Decode(stored[0], []byte("here"))
	var missing *codec.KeyError
	if !errors.As(err, &missing) || missing.ID != "a" ||
		!strings.Contains(err.Error(), `key "a"`) || !strings.Contains(err.Error(), "add it") {
		t.Errorf("without its key: %v", err)
	}
	for i, s := range stored[1:] {
		if _, err := without.Decode(s, []byte("here")); err != nil {
			t.Errorf("payload %d: %v", i+1, err)
		}
	}
	another, err := codec.ParseKeys("a:" + base64Of(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	_, err = codec.New(codec.Options{Keys: another}).Decode(stored[0], []byte("here"))
	if missing = nil; err == nil || errors.As(err, &missing) {
		t.Errorf("with another key of that ID: %v", err)
	}
}

// A compressed payload says how large it is. Whatever it says, a reader allocates no more than a
// payload of its length can have.
//
// spec: B-19
func TestABombDoesNotGoOff(t *testing.T) {
	c := codec.New(codec.Options{})
	honest := encode(t, c, strings.Repeat("x", 1<<20), "here")
	head := codec.Prefix + "\x01"
	_, n := binary.Uvarint(honest[len(head):])
	stream := honest[len(head)+n:]
	for _, size := range []uint64{0, 1, 1<<20 - 1, 1<<20 + 1, 64 << 20, 64<<20 + 1, 1 << 62} {
		odd := append(binary.AppendUvarint([]byte(head), size), stream...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := c.Decode(odd, []byte("here"))
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("one of 1 MB that claims %d bytes is read", size)
		}
		if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 4<<20 {
			t.Errorf("one that claims %d bytes makes the reader allocate %d", size, bytes)
		}
	}
	if _, err := c.Decode(append(bytes.Clone(honest), 0), []byte("here")); err == nil {
		t.Error("one with a byte too many is read")
	}
	large := strings.Repeat("x", 64<<20+1)
	if stored := encode(t, c, large, "here"); len(stored) != len(large) {
		t.Errorf("a payload that is too large to be read compressed has %d bytes", len(stored))
	}
}

func FuzzDecode(f *testing.F) {
	clear := codec.New(codec.Options{CompressFrom: 1})
	sealed := codec.New(codec.Options{Keys: keysOf(f, "k"), CompressFrom: 1})
	for _, data := range samples() {
		f.Add(encode(f, clear, data, "here"))
		f.Add(encode(f, sealed, data, "here"))
	}
	f.Fuzz(func(t *testing.T, stored []byte) {
		before := bytes.Clone(stored)
		for _, c := range []codec.Codec{clear, sealed} {
			got, err := c.Decode(stored, []byte("here"))
			if !bytes.Equal(stored, before) {
				t.Fatal("what is stored was changed")
			}
			if err != nil {
				continue
			}
			again := encode(t, c, string(got), "here")
			if data, err := c.Decode(again, []byte("here")); err != nil || !bytes.Equal(data, got) {
				t.Fatalf("%q is %q, %v", got, data, err)
			}
		}
	})
}

func decodeBase64(t *testing.T, text string) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
