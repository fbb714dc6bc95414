package storetest

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// attributeChecks are about search attributes.
func attributeChecks() []check {
	return []check{
		{"attribute/a run is found by all that it began with and set", attributeFind},
		{"attribute/a run is found by what holds now", attributeChange},
		{"attribute/a group that is refused sets nothing", attributeRolledBack},
		{"attribute/the longest name and value fit", attributeLongest},
	}
}

// setting returns an entry that sets a search attribute. Nil removes it.
func setting(run journal.Number, seq int64, name string, value []byte) store.Change {
	return store.Change{Run: run, Entries: []journal.Entry{{
		Run: run, Seq: seq, Kind: journal.AttributeSet, Op: journal.Op{Name: name}, At: at(1),
		Data: value,
	}}}
}

// has demands the runs that are found by attributes. pairs are a name, its value and so on.
func (w *world) has(want []journal.Number, pairs ...string) {
	w.Helper()
	attributes := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		attributes[pairs[i]] = pairs[i+1]
	}
	w.same(fmt.Sprint("with ", pairs), numbersOf(w.find(store.Filter{Attributes: attributes})),
		want)
}

func numbersOf(heads []journal.Head) []journal.Number {
	var out []journal.Number
	for _, h := range heads {
		out = append(out, h.Number)
	}
	return out
}

// spec: P-14
func attributeFind(w *world) {
	w.join(0)
	a, b := w.start("order-1"), w.start("order-2")
	a.Entries[0].Detail = &journal.Detail{
		StartDetail: journal.StartDetail{
			Attributes: map[string]string{"customer": "4711", "tier": "gold"},
		},
	}
	b.Entries[0].Detail = &journal.Detail{
		StartDetail: journal.StartDetail{Attributes: map[string]string{"customer": "4711"}},
	}
	c := w.start("order-3")
	w.written(a, b, c)
	w.commit(setting(b.Run, 2, "tier", []byte("silver")), setting(c.Run, 2, "tier", []byte("gold")))
	w.has([]journal.Number{b.Run, a.Run}, "customer", "4711")
	w.has([]journal.Number{a.Run}, "customer", "4711", "tier", "gold")
	w.has([]journal.Number{c.Run, a.Run}, "tier", "gold")
	w.has(nil, "tier", "Gold")
	w.has(nil, "tier", "")
	w.has(nil, "nothing", "gold")
	w.same("with another filter", numbersOf(w.find(store.Filter{
		WorkflowID: "order-3", Attributes: map[string]string{"tier": "gold"},
	})), []journal.Number{c.Run})
	w.die(10)
	w.has([]journal.Number{c.Run, a.Run}, "tier", "gold")
}

func attributeChange(w *world) {
	w.join(0)
	c := w.start("")
	c.Entries[0].Detail = &journal.Detail{
		StartDetail: journal.StartDetail{
			Attributes: map[string]string{"tier": "gold", "region": "north"},
		},
	}
	head := w.written(c)[0]
	some := []journal.Number{c.Run}
	w.commit(setting(c.Run, 2, "tier", []byte("silver ☃ '\"")))
	w.has(nil, "tier", "gold")
	w.has(some, "tier", "silver ☃ '\"", "region", "north")
	w.commit(setting(c.Run, 3, "tier", []byte{}))
	w.has(some, "tier", "")
	two := setting(c.Run, 4, "tier", []byte("one"))
	two.Entries = append(two.Entries, setting(c.Run, 5, "tier", []byte("two")).Entries...)
	w.commit(two)
	w.has(some, "tier", "two")
	w.commit(setting(c.Run, 6, "tier", nil), setting(w.written(w.start(""))[0].Number, 2, "tier",
		nil))
	w.has(nil, "tier", "")
	w.has(nil, "tier", "two")
	w.commit(ended(head, 7, 10))
	w.has(some, "region", "north")
}

func attributeRolledBack(w *world) {
	w.join(0)
	c := w.start("")
	c.Entries[0].Detail = &journal.Detail{
		StartDetail: journal.StartDetail{Attributes: map[string]string{"tier": "gold"}},
	}
	w.written(c)
	w.refused(w.group(setting(c.Run, 2, "tier", []byte("silver")), step(w.number(), 1)))
	w.refused(w.group(setting(c.Run, 2, "region", []byte("north")), step(w.number(), 1)))
	w.has([]journal.Number{c.Run}, "tier", "gold")
	w.has(nil, "tier", "silver")
	w.has(nil, "region", "north")
}

// The longest name has 255 bytes, and the longest value 1,024. That value may be invalid
// UTF-8, and it cannot be compressed.
//
// spec: P-14
func attributeLongest(w *world) {
	w.join(0)
	value := make([]byte, 1024)
	_, _ = rand.NewChaCha8([32]byte{}).Read(value)
	name := strings.Repeat("n", 255)
	c := w.start("")
	w.written(c)
	w.commit(setting(c.Run, 2, name, value))
	w.has([]journal.Number{c.Run}, name, string(value))
}
