package storetest

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// entryChecks are about entries as they are read back.
func entryChecks() []check {
	return []check{
		{"entry/every field comes back as it was", entryFields},
		{"entry/every kind and status comes back", entryKinds},
		{"entry/payloads come back byte for byte", entryPayloads},
		{"entry/what was handed over may be changed afterwards", entryCopies},
		{"entry/a range limits what is loaded", entryRanges},
		{"entry/the last entries of runs that have ended come together", entryEnds},
		{"entry/a detail that does not encode refuses the whole group", entryDetailRefused},
	}
}

func entryFields(w *world) {
	w.join(0)
	c := w.start("")
	failure := &journal.Failure{
		Message: "no \x00 money \u2028 ☃", Code: journal.CodePanic, Name: "ErrMoney",
		Type: "*bank.Error",
		Data: json.RawMessage(`{"cents":12}`), Class: journal.ClassRetry, After: 3 * time.Second,
		Stack: "goroutine 1",
		Wraps: []*journal.Failure{
			{Message: "inner"},
			{Message: "other", Wraps: []*journal.Failure{{Message: "root"}}},
		},
	}
	whole := &journal.Detail{
		Attempt:       3,
		Due:           at(9).Add(7),
		Failure:       failure,
		Reason:        "reason",
		CodeDetail:    journal.CodeDetail{Build: "b2", Engine: 7},
		StepDetail:    journal.StepDetail{Once: "once", Async: true},
		ByWait:        true,
		Failures:      4,
		Version:       2,
		Phase:         "try",
		Other:         "db-1-2",
		MessageDetail: journal.MessageDetail{Message: "m", To: "order-7"},
		Outcome:       journal.Cancelled,
		Choices:       []string{"retry", "skip"},
		EventDetail:   journal.EventDetail{Event: "OrderShipped"},
		StartDetail: journal.StartDetail{
			Headers:    map[string]string{"trace": "1"},
			Attributes: map[string]string{"tier": "gold"},
			Began:      at(1),
			Ended:      at(2),
		},
	}
	wild := []journal.Entry{
		{Kind: journal.StepRetrying, Status: journal.Waiting, Detail: whole},
		{
			Kind: journal.StepCompleted,
			Op:   journal.Op{Scope: 2, Name: "charge", Key: "4711", Occ: 12},
			At:   at(1).Add(1),
			Took: 1,
		},
		{
			Kind: journal.StepCompleted,
			Op: journal.Op{
				Name: strings.Repeat("n", journal.MaxName), Key: "ключ ☃ \x00 \xff ' \"",
			},
			Took: -time.Hour,
		},
		{
			Kind: journal.SignalReceived, At: time.Unix(0, 1), Took: 1<<62 - 1,
			Detail: &journal.Detail{},
		},
		{Kind: journal.TimerFired, At: time.Date(1969, 12, 31, 23, 59, 59, 999999999, time.UTC)},
		{Kind: journal.StatusChanged, At: at(3).In(time.FixedZone("east", 3600))},
		{Kind: journal.ValueRecorded},
	}
	for i := range wild {
		wild[i].Run, wild[i].Seq = c.Run, int64(i+2)
	}
	c.Entries = append(c.Entries, wild...)
	w.written(c)
	w.same("entries", w.load(c.Run, store.Range{}), c.Entries)
	w.die(10)
	w.same("entries after reopening", w.load(c.Run, store.Range{}), c.Entries)
	runs := w.take(10, 1).Runs
	w.same("claimed entries", runs[0].Entries, c.Entries)
	w.same("last", runs[0].Last, int64(len(c.Entries)))
}

func entryKinds(w *world) {
	w.join(0)
	c := w.start("")
	for i, k := range journal.Kinds() {
		e := journal.Entry{Run: c.Run, Seq: int64(i + 2), Kind: k, At: at(i)}
		e.Status = journal.Statuses()[i%len(journal.Statuses())]
		c.Entries = append(c.Entries, e)
	}
	w.written(c)
	w.same("entries", w.load(c.Run, store.Range{}), c.Entries)
}

func entryPayloads(w *world) {
	w.join(0)
	c := w.start("")
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for i, data := range [][]byte{
		nil, {}, {0}, []byte("a\x00b"), {0xff, 0xfe}, every,
		[]byte(" { \"b\" : 1.0, \"a\":1e2 }\n"),
		[]byte("\xef\xbb\xbf"), []byte("null"), bytes.Repeat(every, 4096),
	} {
		c.Entries = append(c.Entries, journal.Entry{
			Run: c.Run, Seq: int64(i + 2), Kind: journal.StepCompleted, At: at(i), Data: data,
		})
	}
	w.written(c)
	w.same("entries", w.load(c.Run, store.Range{}), c.Entries)
	w.die(10)
	w.same("claimed entries", w.take(10, 1).Runs[0].Entries, c.Entries)
}

func entryCopies(w *world) {
	w.join(0)
	c := w.start("")
	c.Entries[0].Detail = &journal.Detail{
		Reason: "mine", Failure: &journal.Failure{Message: "mine"},
	}
	w.written(c)
	want := text(w.load(c.Run, store.Range{}))
	wantHead := w.head(c.Run)
	c.Entries[0].Detail.Reason, c.Entries[0].Detail.Failure.Message, c.Entries[0].Op.Name = "x",
		"x", "x"
	c.Head.Cause = "x"
	got := w.load(c.Run, store.Range{})
	got[0].Detail.Reason, got[0].Detail.Failure.Message, got[0].Kind = "y", "y", journal.TimerFired
	if now := text(w.load(c.Run, store.Range{})); now != want {
		w.Fatalf("the stored entry has changed to %s, from %s", now, want)
	}
	w.same("head", w.head(c.Run), wantHead)
}

func entryRanges(w *world) {
	w.join(0)
	c := w.start("")
	for seq := int64(2); seq <= 10; seq++ {
		c.Entries = append(c.Entries, step(c.Run, seq).Entries...)
	}
	w.written(c, w.start(""))
	for _, r := range []struct {
		store.Range
		from, to int
	}{
		{store.Range{}, 1, 10}, {store.Range{From: 1}, 1, 10}, {store.Range{From: 4}, 4, 10},
		{store.Range{Limit: 3}, 1, 3}, {store.Range{From: 9, Limit: 5}, 9, 10},
		{store.Range{From: 10, Limit: 1}, 10, 10},
		{store.Range{Limit: 3, Tail: true}, 8, 10}, {
			store.Range{From: 2, Limit: 12, Tail: true},
			1,
			10,
		}, {store.Range{Tail: true}, 1, 10},
		{store.Range{From: 9, Limit: 1, Tail: true}, 10, 10}, {store.Range{From: 11}, 11, 10},
		{store.Range{From: 1 << 62, Limit: 1}, 11, 10},
	} {
		w.same("range", w.load(c.Run, r.Range), c.Entries[r.from-1:r.to])
	}
	w.rows(w.number(), 0)
}

// spec: R-26
func entryEnds(w *world) {
	w.join(0)
	open, done, failed := w.written(w.start(""))[0], w.written(w.start(""))[0],
		w.written(w.start(""))[0]
	w.commit(ended(done, 2, 10), step(failed.Number, 2))
	large := ended(failed, 3, 11)
	large.Entries[0].Data, large.Entries[0].Spill = []byte("large"), w.number()
	w.commit(large)
	runs := []journal.Number{failed.Number, w.number(), open.Number, done.Number}
	got := w.load(0, store.Range{Ends: runs})
	if len(got) != 2 || got[0].Run != failed.Number || got[0].Seq != 3 || got[0].Data != nil ||
		got[1].Run != done.Number || got[1].Seq != 2 {
		w.Fatalf("the ends are %+v", got)
	}
	w.same("payload", string(w.load(0, store.Range{Ends: runs, Payloads: true})[0].Data), "large")
	w.same("none", len(w.load(0, store.Range{Ends: runs[1:3]})), 0)
}

func entryDetailRefused(w *world) {
	w.join(0)
	fresh, c := w.start(""), w.start("")
	c.Entries[0].Detail = &journal.Detail{Failure: &journal.Failure{Data: json.RawMessage("{")}}
	w.refused(w.group(fresh, c))
	w.absent(fresh.Run)
	w.absent(c.Run)
}
