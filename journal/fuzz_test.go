package journal_test

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/perdure/perdure/journal"
)

// goldenLines adds each line of the golden journals to a fuzz target.
func goldenLines(f *testing.F) {
	f.Helper()
	for name := range golden {
		stored, err := os.ReadFile(filepath.Join("testdata", "golden", name))
		if err != nil {
			f.Fatal(err)
		}
		for line := range bytes.Lines(stored) {
			f.Add(line)
		}
	}
}

// FuzzRead demands that entries that are readable are written in a form that reads as the same, and
// that they can be measured and folded without a panic.
func FuzzRead(f *testing.F) {
	goldenLines(f)
	f.Add([]byte(line + line))
	for _, name := range []string{"v1-order.jsonl", "v1-chain.jsonl", "v1-successor.jsonl"} {
		var whole bytes.Buffer
		if err := journal.Write(&whole, golden[name]); err != nil {
			f.Fatal(err)
		}
		f.Add(whole.Bytes())
	}
	f.Add(
		[]byte(
			`{"v":1,"run":1,"seq":1,"kind":"RunFailed","at":1,"detail":{"failure":{"message":"","wraps":[null]}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := journal.Read(bytes.NewReader(b))
		if err != nil {
			return
		}
		var once, twice bytes.Buffer
		if err := journal.Write(&once, entries); err != nil {
			t.Fatal(err)
		}
		again, err := journal.Read(bytes.NewReader(once.Bytes()))
		if err != nil {
			t.Fatalf("%s: %v", once.Bytes(), err)
		}
		if err := journal.Write(&twice, again); err != nil ||
			!bytes.Equal(once.Bytes(), twice.Bytes()) {
			t.Fatalf("%s was read and written as %s (%v)", once.Bytes(), twice.Bytes(), err)
		}
		a := newAggregate()
		for i := range entries {
			if entries[i].Size() <= 0 || entries[i].Check() != nil {
				t.Errorf("entry %+v has size %d: %v", entries[i], entries[i].Size(),
					entries[i].Check())
			}
			entries[i].Seq = int64(i + 1)
			if a.Apply(entries[i]) != nil {
				break
			}
		}
		s := a.Snapshot()
		if got := journal.Restore(s).Snapshot(); !reflect.DeepEqual(got, s) {
			t.Errorf("restored\n got %+v\nwant %+v", got, s)
		}
	})
}

// FuzzDetail does the same for details.
func FuzzDetail(f *testing.F) {
	for _, e := range slices.Concat(goldenFields(), golden["v1-fields-2.jsonl"], goldenMessages()) {
		b, err := journal.EncodeDetail(e.Detail)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`null`))
	f.Add([]byte(`{"failure":{"message":"","data":[1, 2],"wraps":[null]}}`))
	f.Add([]byte(`{"due":"2026-11-20T12:00:00.5+01:00"}`))
	f.Add([]byte(
		`{"choices":[],"headers":{},"attributes":{"a":"\ud800"},"began":"0001-01-01T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := journal.DecodeDetail(b)
		if err != nil || d == nil {
			return
		}
		once, err := journal.EncodeDetail(d)
		if err != nil {
			t.Fatal(err)
		}
		again, err := journal.DecodeDetail(once)
		if err != nil {
			t.Fatalf("%s: %v", once, err)
		}
		if twice, err := journal.EncodeDetail(again); err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%s was read and written as %s (%v)", once, twice, err)
		}
		f := d.Failure
		f.ClassOf()
		f.CodeOf()
		f.StackOf()
	})
}

// FuzzRunID demands that an ID that has a number is the ID of that number.
func FuzzRunID(f *testing.F) {
	for _, id := range []string{
		"", "db-1-1", "db-01-1", "db--1", "db-67108863-137438953471", "other-1-1", "db-1-1\x00",
	} {
		f.Add(id, "db")
	}
	f.Add("a-1-1-2", "a-1")
	f.Fuzz(func(t *testing.T, id, database string) {
		n, ok := journal.RunID(id).Number(database)
		switch {
		case !ok && n != 0:
			t.Errorf("%q has no number in %q, and is number %d", id, database, n)
		case ok && (n <= 0 || journal.MakeRunID(database, n) != journal.RunID(id)):
			t.Errorf("%q is number %d in %q, whose ID is %q", id, n, database,
				journal.MakeRunID(database, n))
		}
	})
}

// FuzzNames demands that a name that is readable is the name of the result, and that a valid name
// has only bytes that need no quoting anywhere.
func FuzzNames(f *testing.F) {
	for _, k := range journal.Kinds() {
		f.Add(k.String())
	}
	for _, s := range journal.Statuses() {
		f.Add(s.String())
	}
	for _, s := range []string{"", "Kind(0)", "Status(250)", "running", "a\x00", "é"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if k, ok := journal.ParseKind(name); ok != k.Valid() || ok && k.String() != name {
			t.Errorf("ParseKind(%q) = %v, %v", name, k, ok)
		}
		if s, ok := journal.ParseStatus(name); ok != s.Valid() || ok && s.String() != name {
			t.Errorf("ParseStatus(%q) = %v, %v", name, s, ok)
		}
		if journal.ValidName(name) != (len(name) >= 1 && len(name) <= 255 &&
			bytes.IndexFunc([]byte(name), odd) < 0) {
			t.Errorf("ValidName(%q) = %v", name, journal.ValidName(name))
		}
	})
}

// odd reports whether a character is not allowed in a name.
func odd(r rune) bool {
	return !bytes.ContainsRune(
		[]byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-"), r)
}
