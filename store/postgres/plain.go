package postgres

import (
	"database/sql/driver"
	"encoding/hex"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// plain converts an argument to a value that every driver of package database/sql accepts: an
// array becomes the text that PostgreSQL reads, a small number becomes an int64.
func plain(arg any) (any, error) {
	v := reflect.ValueOf(arg)
	switch {
	case arg == nil:
		return nil, nil
	case v.Kind() != reflect.Slice:
		return driver.DefaultParameterConverter.ConvertValue(arg)
	case v.Type().Elem().Kind() == reflect.Uint8:
		return arg, nil
	}
	var text strings.Builder
	text.WriteByte('{')
	for i := range v.Len() {
		if i > 0 {
			text.WriteByte(',')
		}
		if err := element(&text, v.Index(i).Interface()); err != nil {
			return nil, err
		}
	}
	text.WriteByte('}')
	return text.String(), nil
}

// element writes one value of an array.
func element(text *strings.Builder, v any) error {
	v, err := driver.DefaultParameterConverter.ConvertValue(v)
	if err != nil {
		return err
	}
	switch v := v.(type) {
	case nil:
		text.WriteString("NULL")
	case int64:
		text.WriteString(strconv.FormatInt(v, 10))
	case bool:
		text.WriteString(strconv.FormatBool(v))
	case string:
		text.WriteByte('"')
		_, _ = quoting.WriteString(text, v) // a Builder takes everything
		text.WriteByte('"')
	case []byte:
		if v == nil {
			text.WriteString("NULL")
			break
		}
		text.WriteString(`"\\x` + hex.EncodeToString(v) + `"`)
	default:
		return fmt.Errorf("postgres: an array of %T", v)
	}
	return nil
}

var quoting = strings.NewReplacer(`\`, `\\`, `"`, `\"`)
