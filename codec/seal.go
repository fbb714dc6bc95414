package codec

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
)

// The sizes of a sealed payload in bytes.
const (
	nonceSize = 24
	tagSize   = 16
)

// A key encrypts and decrypts by XAES-256-GCM: half of a nonce and the key make a key of their own,
// by which AES-256-GCM encrypts with the other half as its nonce.
type key struct {
	id     string
	secret [secretSize]byte
	block  cipher.Block
	mask   [aes.BlockSize]byte // K1 of the specification
}

// newKey returns a key that is ready to use.
func newKey(id string, secret [secretSize]byte) (*key, error) {
	block, err := aes.NewCipher(secret[:])
	if err != nil {
		return nil, err
	}
	k := &key{id: id, secret: secret, block: block}
	block.Encrypt(k.mask[:], k.mask[:])
	carry := k.mask[0] >> 7
	for i := range len(k.mask) - 1 {
		k.mask[i] = k.mask[i]<<1 | k.mask[i+1]>>7
	}
	k.mask[len(k.mask)-1] = k.mask[len(k.mask)-1]<<1 ^ carry*0x87
	return k, nil
}

// derive returns AES-256-GCM with the key that the first half of a nonce makes.
func (k *key) derive(nonce []byte) (cipher.AEAD, error) {
	var derived [secretSize]byte
	for i := range 2 {
		half := derived[i*aes.BlockSize:][:aes.BlockSize]
		half[1], half[2] = byte(i+1), 'X'
		copy(half[4:], nonce[:nonceSize/2])
		subtle.XORBytes(half, half, k.mask[:])
		k.block.Encrypt(half, half)
	}
	block, err := aes.NewCipher(derived[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// seal returns the stored form of a payload that is encrypted.
func (k *key) seal(form byte, packed, place []byte) ([]byte, error) {
	out := make([]byte, 0, len(Prefix)+2+len(k.id)+nonceSize+1+len(packed)+tagSize)
	out = append(append(out, Prefix...), formSealed, byte(len(k.id)))
	out = append(out, k.id...)
	nonce := out[len(out) : len(out)+nonceSize]
	rand.Read(nonce) // it never fails
	aead, err := k.derive(nonce)
	if err != nil {
		return nil, err
	}
	head := len(out) + nonceSize
	out = append(append(out[:head], form), packed...)
	return aead.Seal(out[:head], nonce[nonceSize/2:], out[head:], place), nil
}

var errOpen = errors.New("the payload was changed, or is from another place, or its key is " +
	"another one of the same ID")

// open returns what is sealed, behind the byte of its form.
func (ks Keys) open(sealed, place []byte) ([]byte, error) {
	if len(sealed) == 0 {
		return nil, errShort
	}
	length := int(sealed[0])
	if len(sealed) < 1+length+nonceSize+tagSize {
		return nil, errShort
	}
	id, rest := string(sealed[1:][:length]), sealed[1+length:]
	k := ks.find(id)
	if k == nil {
		return nil, &KeyError{ID: id}
	}
	aead, err := k.derive(rest)
	if err != nil {
		return nil, err
	}
	opened, err := aead.Open(nil, rest[nonceSize/2:nonceSize], rest[nonceSize:], place)
	if err != nil {
		return nil, errOpen
	}
	return opened, nil
}

// A KeyError is the error of a payload whose key a program does not have.
type KeyError struct{ ID string }

// Error names the key, and says what to do.
func (e *KeyError) Error() string {
	return fmt.Sprintf("the payload is encrypted with the key %q, which is not among the keys of "+
		"this program: add it to them, behind the first, and resume the run", e.ID)
}
