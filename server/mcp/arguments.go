package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"
)

// request returns the request of a call, and how much of its answer is left out. What does not
// depend on the operation is that of the message: the credential, the host and the address of the
// sender, and what the application has put into the context.
func (o operation) request(message *http.Request, text json.RawMessage) (*http.Request, int,
	error) {
	var a arguments
	if err := json.Unmarshal(text, &a); err != nil && len(text) > 0 {
		return nil, 0, errors.New("the arguments are not a JSON object")
	}
	r := message.Clone(message.Context())
	r.Method, r.Body, r.ContentLength, r.TransferEncoding = o.method, http.NoBody, 0, nil
	for _, name := range []string{"Accept", "Content-Encoding", "Content-Length", "Content-Type"} {
		r.Header.Del(name)
	}
	if err := o.address(r, a); err != nil {
		return nil, 0, err
	}
	if body := a.take(bodyName, o.body != nil); body != nil {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Type", "application/json")
	}
	skip, err := a.skip(o.reads())
	for name := range a {
		err = fmt.Errorf("there is no argument %s", name)
	}
	return r, skip, err
}

// address sets the address of a request, and the headers that are parameters.
func (o operation) address(r *http.Request, a arguments) error {
	path, query := o.path, url.Values{}
	for _, p := range o.Parameters {
		texts, err := a.texts(p.Name)
		if err != nil {
			return err
		}
		one := strings.Join(texts, ",")
		switch {
		case p.In == "query" && p.Name == limitName && one == "":
			query.Set(limitName, strconv.Itoa(p.limit()))
		case p.In == "query":
			query[p.Name] = texts
		case p.In == "path" && one == "":
			return fmt.Errorf("%s is missing", p.Name)
		case p.In == "path":
			path = strings.Replace(path, "{"+p.Name+"}", escaped(one), 1)
		case strings.ContainsFunc(one, unicode.IsControl):
			return fmt.Errorf("%s is not valid: it has control characters", p.Name)
		case one == "":
			r.Header.Del(p.Name)
		default:
			r.Header.Set(p.Name, one)
		}
	}
	at, err := url.Parse(path)
	if err != nil {
		return err
	}
	at.RawQuery = query.Encode()
	r.URL, r.RequestURI = at, at.RequestURI()
	return nil
}

// escaped returns a part of a path for any text. A part of dots only is a part like others.
func escaped(text string) string { return strings.ReplaceAll(url.PathEscape(text), ".", "%2E") }

// The arguments of a call, by name. What is read is taken out.
type arguments map[string]json.RawMessage

// take returns an argument that the operation has; nil if it is missing or null.
func (a arguments) take(name string, has bool) json.RawMessage {
	v := a[name]
	if has {
		delete(a, name)
	}
	if !has || string(v) == "null" {
		return nil
	}
	return v
}

// texts returns an argument as a query has it: none if it is missing, and several for a list.
func (a arguments) texts(name string) (out []string, err error) {
	raw := a.take(name, true)
	if raw == nil {
		return nil, nil
	}
	items := []json.RawMessage{raw}
	if raw[0] == '[' {
		err = json.Unmarshal(raw, &items)
	}
	for _, item := range items {
		text := string(item)
		switch item[0] {
		case '"':
			err = errors.Join(err, json.Unmarshal(item, &text))
		case '{', '[', 'n':
			err = fmt.Errorf("%s is not valid: allowed are texts, numbers and booleans", name)
		}
		out = append(out, text)
	}
	return out, err
}

// skip returns how much of the answer is left out.
func (a arguments) skip(has bool) (int, error) {
	raw := a.take(skipName, has)
	if raw == nil {
		return 0, nil
	}
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < 0 {
		return 0, errors.New("skip is not valid: allowed are whole numbers from 0 on")
	}
	return n, nil
}
