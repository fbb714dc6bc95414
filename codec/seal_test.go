package codec

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// The vectors of the specification of XAES-256-GCM.
//
// spec: B-19
func TestXAES(t *testing.T) {
	nonce := []byte("ABCDEFGHIJKLMNOPQRSTUVWX")
	for _, c := range []struct {
		fill             byte
		place, encrypted string
	}{
		{1, "", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"},
		{
			3, "c2sp.org/XAES-256-GCM",
			"986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d",
		},
	} {
		k, err := newKey("k", [secretSize]byte(bytes.Repeat([]byte{c.fill}, secretSize)))
		if err != nil {
			t.Fatal(err)
		}
		aead, err := k.derive(nonce)
		if err != nil {
			t.Fatal(err)
		}
		got := aead.Seal(nil, nonce[nonceSize/2:], []byte("XAES-256-GCM"), []byte(c.place))
		if hex.EncodeToString(got) != c.encrypted {
			t.Errorf("with the key of %ds it is %x", c.fill, got)
		}
	}
}
