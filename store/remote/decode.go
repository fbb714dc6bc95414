package remote

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// maxDepth limits how deep lists and objects are in each other. The deepest are the causes of a
// failure, two for each.
const maxDepth = 1000

// A decoder reads what [encode] writes, and nothing else.
type decoder struct {
	tokens *json.Decoder
	depth  int
	room   int64 // how many bytes further elements of lists may take in memory
}

// decode sets into, which is a pointer, to the value of a JSON text. The elements of all lists
// together take at most room bytes, so that a short text does not fill the memory.
func decode(text []byte, into any, room int64) error {
	d := &decoder{tokens: json.NewDecoder(bytes.NewReader(text)), room: room}
	d.tokens.UseNumber()
	if err := d.value(reflect.ValueOf(into).Elem()); err != nil {
		return err
	}
	if _, err := d.tokens.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the object")
	}
	return nil
}

// value sets v to the next value.
func (d *decoder) value(v reflect.Value) error {
	t, err := d.tokens.Token()
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	return d.set(v, t)
}

// set sets v to the value that begins with a token.
func (d *decoder) set(v reflect.Value, t json.Token) error {
	if t == nil {
		return setNil(v)
	}
	switch v.Type() {
	case timeType:
		return d.time(v, t)
	case errorType:
		var f failure
		if err := d.set(reflect.ValueOf(&f).Elem(), t); err != nil {
			return err
		}
		v.Set(reflect.ValueOf(f.err()))
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return d.set(v.Elem(), t)
	case reflect.String:
		return d.text(v, t)
	case reflect.Slice:
		if v.Type().ConvertibleTo(bytesType) {
			return setBytes(v, t)
		}
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		return d.list(v, t)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		return d.pairs(v, t)
	case reflect.Struct:
		return d.fields(v, t)
	}
	return setPlain(v, t)
}

// setNil sets v to the value of null, which only what may be nil has.
func setNil(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		v.SetZero()
		return nil
	}
	return wrong(v, nil)
}

// setPlain sets a bool or a number.
func setPlain(v reflect.Value, t json.Token) error {
	is, isBool := t.(bool)
	number, isNumber := t.(json.Number)
	switch {
	case isBool && v.Kind() == reflect.Bool:
		v.SetBool(is)
		return nil
	case isNumber && v.CanInt():
		n, err := strconv.ParseInt(number.String(), 10, v.Type().Bits())
		v.SetInt(n)
		return err
	case isNumber && v.CanUint():
		n, err := strconv.ParseUint(number.String(), 10, v.Type().Bits())
		v.SetUint(n)
		return err
	}
	return wrong(v, t)
}

func setBytes(v reflect.Value, t json.Token) error {
	s, ok := t.(string)
	if !ok {
		return wrong(v, t)
	}
	data, err := base64.StdEncoding.Strict().DecodeString(s)
	v.SetBytes(data)
	return err
}

// text sets a text. A string with the replacement character was not Unicode, or has lost something
// on its way here.
func (d *decoder) text(v reflect.Value, t json.Token) error {
	if s, ok := t.(string); ok {
		if strings.ContainsRune(s, utf8.RuneError) {
			return errors.New("a text is not UTF-8")
		}
		v.SetString(s)
		return nil
	}
	var data [][]byte
	if err := d.list(reflect.ValueOf(&data).Elem(), t); err != nil {
		return err
	}
	if len(data) != 1 {
		return wrong(v, t)
	}
	v.SetString(string(data[0]))
	return nil
}

func (d *decoder) time(v reflect.Value, t json.Token) error {
	var parts []int64
	if err := d.list(reflect.ValueOf(&parts).Elem(), t); err != nil {
		return err
	}
	if len(parts) != 2 || parts[1] < 0 || parts[1] >= int64(time.Second) {
		return wrong(v, t)
	}
	v.Set(reflect.ValueOf(time.Unix(parts[0], parts[1]).UTC()))
	return nil
}

// within calls each for each element or key in a list or an object, which begins with the token t.
func (d *decoder) within(v reflect.Value, t json.Token, begin json.Delim, each func() error) error {
	if t != json.Token(begin) {
		return wrong(v, t)
	}
	if d.depth++; d.depth > maxDepth {
		return fmt.Errorf("it is more than %d deep", maxDepth)
	}
	for d.tokens.More() {
		if err := each(); err != nil {
			return err
		}
	}
	d.depth--
	_, err := d.tokens.Token() // the end of the list
	return err
}

func (d *decoder) list(v reflect.Value, t json.Token) error {
	elem := v.Type().Elem()
	return d.within(v, t, '[', func() error {
		if d.room -= int64(elem.Size()); d.room < 0 {
			return errors.New("it has too many elements")
		}
		v.Set(reflect.Append(v, reflect.Zero(elem)))
		return d.value(v.Index(v.Len() - 1))
	})
}

func (d *decoder) pairs(v reflect.Value, t json.Token) error {
	return d.within(v, t, '[', func() error {
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		t, err := d.tokens.Token()
		if err != nil {
			return err
		}
		part := []reflect.Value{key, value}
		if err := d.within(v, t, '[', func() error {
			if len(part) == 0 {
				return wrong(v, t)
			}
			at := part[0]
			part = part[1:]
			return d.value(at)
		}); err != nil {
			return err
		}
		if len(part) > 0 || v.MapIndex(key).IsValid() {
			return fmt.Errorf("the key %q has no value, or two", key)
		}
		v.SetMapIndex(key, value)
		return nil
	})
}

func (d *decoder) fields(v reflect.Value, t json.Token) error {
	seen := map[string]bool{}
	return d.within(v, t, '{', func() error {
		t, err := d.tokens.Token()
		if err != nil {
			return err
		}
		name := t.(string) // the key of an object
		f, ok := v.Type().FieldByName(name)
		if !ok || !f.IsExported() || len(f.Index) != 1 {
			return fmt.Errorf("there is no field %q in %s", name, v.Type())
		}
		if seen[name] {
			return fmt.Errorf("the field %q is there twice", name)
		}
		seen[name] = true
		return d.value(v.FieldByIndex(f.Index))
	})
}

func wrong(v reflect.Value, t json.Token) error {
	return fmt.Errorf("%v is no %s", t, v.Type())
}
