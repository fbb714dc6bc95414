package remote

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// sentBack returns an error as the client gets it.
func sentBack(t *testing.T, err error) error {
	t.Helper()
	text, e := encode(answer[nothing]{Err: err})
	var a answer[nothing]
	if e == nil {
		e = decode(text, &a, maxRoom)
	}
	if e != nil {
		t.Fatalf("%v: %v", err, e)
	}
	return a.Err
}

// spec: B-16
func TestErrorsKeepTheirIdentity(t *testing.T) {
	for _, is := range sentinels {
		err := fmt.Errorf("behind the wire: %w", is)
		got := sentBack(t, err)
		for _, other := range sentinels {
			if errors.Is(got, other) != errors.Is(err, other) {
				t.Errorf("%v is %v: %t", got, other, errors.Is(got, other))
			}
		}
		if got.Error() != err.Error() {
			t.Errorf("%q has become %q", err, got)
		}
	}
	for _, err := range []error{
		&store.SchemaError{Has: 1, Knows: 2}, &store.UnsafeError{Setting: "fsync"},
		&store.TransactionError{Driver: "d", Got: "g", Want: "w", Stale: true},
		&journal.CorruptError{Run: 1, Seq: 2, Reason: "r"},
		&journal.Error{Code: journal.CodeInvalid, Op: "o", Message: "m", Hint: "h"},
	} {
		got := reflect.New(reflect.TypeOf(err))
		back := sentBack(t, fmt.Errorf("with: %w", err))
		if !errors.As(back, got.Interface()) || !reflect.DeepEqual(got.Elem().Interface(), err) ||
			back.Error() != "with: "+err.Error() {
			t.Errorf("%#v has become %#v", err, back)
		}
	}
	var schema *store.SchemaError
	back := sentBack(t, &store.SchemaError{Has: 3, Knows: 2})
	if !errors.Is(back, store.ErrNewer) || errors.Is(back, store.ErrOlder) ||
		!errors.As(back, &schema) {
		t.Errorf("%v is not newer", back)
	}
}

// What a DataError and an error of package journal wrap crosses with them.
func TestErrorsKeepWhatTheyWrap(t *testing.T) {
	corrupt := &journal.CorruptError{Run: 1, Seq: 2, Reason: "r"}
	got := sentBack(t, &store.DataError{
		Err: &journal.Error{Code: journal.CodeTooLarge, Err: corrupt},
	})
	var data *store.DataError
	var inner *journal.CorruptError
	if !errors.As(got, &data) || journal.CodeOf(data) != journal.CodeTooLarge ||
		!errors.As(data.Err, &inner) || *inner != *corrupt {
		t.Errorf("%#v", got)
	}
	plain := sentBack(t, errors.New("\xff is gone"))
	if plain.Error() != "\xff is gone" || errors.Unwrap(plain) != nil ||
		journal.CodeOf(plain) != "" {
		t.Errorf("%#v", plain)
	}
	if sentBack(t, nil) != nil {
		t.Error("no error has become one")
	}
}

// An error that package store gets has to cross the wire, too.
func TestNoErrorOfTheStoreIsForgotten(t *testing.T) {
	files, err := filepath.Glob("../*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	texts, types := map[string]bool{}, map[string]bool{}
	for _, e := range sentinels {
		texts[e.Error()] = true
	}
	for f := range reflect.ValueOf(failure{}).Fields() {
		if f.Type.Kind() == reflect.Pointer {
			types[f.Type.Elem().Name()] = true
		}
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if missing := forgotten(n, texts, types); missing != "" {
				t.Errorf("%s: the error %s does not cross the wire: add it to failure.go", name,
					missing)
			}
			return true
		})
	}
}

// forgotten returns the error that a node declares, unless it is known.
func forgotten(n ast.Node, texts, types map[string]bool) string {
	switch n := n.(type) {
	case *ast.ValueSpec:
		if !strings.HasPrefix(n.Names[0].Name, "Err") || len(n.Values) == 0 {
			return ""
		}
		call, ok := n.Values[0].(*ast.CallExpr)
		if !ok {
			return n.Names[0].Name
		}
		text, err := strconv.Unquote(call.Args[0].(*ast.BasicLit).Value)
		if err != nil || !texts[text] {
			return n.Names[0].Name
		}
	case *ast.FuncDecl:
		if n.Recv == nil || n.Name.Name != "Error" {
			return ""
		}
		star, ok := n.Recv.List[0].Type.(*ast.StarExpr)
		if !ok || !types[star.X.(*ast.Ident).Name] {
			return fmt.Sprint("at ", n.Pos())
		}
	}
	return ""
}
