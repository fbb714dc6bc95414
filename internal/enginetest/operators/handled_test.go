package operators

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// spec: P-4
func TestADeadLetterIsAddedFromOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t)
		defer func() { w.End() }()
		ctx := t.Context()
		l := deadletter.Letter{
			Workflow: "billing", WorkflowID: "inv/7", Pattern: journal.PatternSaga, Step: "post[1]",
			Status: journal.Compensating, Error: "the ledger is closed", Code: "closed", Type: "e",
			Input: json.RawMessage(`{"cents":7}`),
		}
		add := func(a *admin.Client, l deadletter.Letter) string {
			t.Helper()
			return world.Must[string](t)(a.AddDeadLetter(ctx, l))
		}
		a := admin.New(w.Engine)
		id := add(a, l)
		want := l
		want.ID, want.CreatedAt = id, time.Now().UTC()
		if got := letter(w); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("the letter is\n%+v\nwant\n%+v", got, want)
		}
		time.Sleep(time.Minute)
		w.Crash()
		client := world.Must[*perdure.Client](t)(perdure.NewClient(ctx, w.DB))
		a = admin.New(w.Engine)
		l.Error, l.Status, l.Code, l.Type = "it is still closed", 0, "", ""
		want.Error, want.Status, want.Code, want.Type = l.Error, journal.Failed, "", ""
		for _, a := range []*admin.Client{a, admin.New(client), a} { // the same again
			if again := add(a, l); again != id {
				t.Errorf("the same failure has the letters %s and %s", id, again)
			}
		}
		time.Sleep(time.Hour) // the engine reads at its next sweep what a client has sent
		if got := letter(w); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("the letter is\n%+v\nwant\n%+v", got, want)
		}
		other := l
		other.Step = "send"
		plain := deadletter.Letter{Workflow: "mail", Error: "bounced"}
		ids := []string{id, add(a, other), add(a, plain), add(admin.New(client), plain)}
		slices.Sort(ids)
		if ids = slices.Compact(ids); len(ids) != 4 {
			t.Errorf("the letters of four failures are %v", ids)
		}
		for n, q := range map[int]admin.DeadLetterQuery{
			4: {}, 2: {Workflow: "mail"}, 0: {WorkflowID: "inv/8"},
		} {
			if got := letters(w, q); len(got) != n {
				t.Errorf("of %+v there are %+v", q, got)
			}
		}
		_, err := a.RetryDeadLetter(ctx, id)
		world.CodeIs(t, err, journal.CodeWrongState)
		world.NoError(t, a.DeleteDeadLetter(ctx, id, admin.Note{}))
		if again := add(a, l); again != id {
			t.Errorf("the letter of the same failure is %s, it was %s", again, id)
		}
		if got := letters(w, admin.DeadLetterQuery{WorkflowID: "inv/7"}); len(got) != 2 {
			t.Errorf("after a deletion there are %+v", got)
		}
		if runs := world.Must[[]perdure.Status](t)(w.Engine.Statuses(ctx,
			"inv/7")); runs[0].Found {
			t.Error("the workflow ID of a letter is that of a run")
		}
	})
}

// spec: P-4
func TestWhichDeadLettersCannotBeAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t)
		defer w.End()
		ctx, a := t.Context(), admin.New(w.Engine)
		for name, change := range map[string]func(*deadletter.Letter){
			"no workflow":    func(l *deadletter.Letter) { l.Workflow = "" },
			"a workflow":     func(l *deadletter.Letter) { l.Workflow = "two words" },
			"a workflow ID":  func(l *deadletter.Letter) { l.WorkflowID = "two words" },
			"a step":         func(l *deadletter.Letter) { l.Step = "two words" },
			"a pattern":      func(l *deadletter.Letter) { l.Pattern = 99 },
			"a status":       func(l *deadletter.Letter) { l.Status = 99 },
			"no error":       func(l *deadletter.Letter) { l.Error = "" },
			"an input":       func(l *deadletter.Letter) { l.Input = []byte("no JSON") },
			"an ID":          func(l *deadletter.Letter) { l.ID = "x" },
			"a run":          func(l *deadletter.Letter) { l.RunID = "x" },
			"retries":        func(l *deadletter.Letter) { l.Retries = 1 },
			"a creation":     func(l *deadletter.Letter) { l.CreatedAt = time.Now() },
			"a retry":        func(l *deadletter.Letter) { l.RetriedAt = time.Now() },
			"a mark":         func(l *deadletter.Letter) { l.HandledAt = time.Now() },
			"a note":         func(l *deadletter.Letter) { l.Note = "x" },
			"a damaged part": func(l *deadletter.Letter) { l.Damaged = "x" },
		} {
			l := deadletter.Letter{Workflow: "mail", Error: "bounced"}
			change(&l)
			if _, err := a.AddDeadLetter(ctx, l); journal.CodeOf(err) != journal.CodeInvalid {
				t.Errorf("%s is not refused: %v", name, err)
			}
		}
		in := admin.New(w.Engine.In(nil))
		_, err := in.AddDeadLetter(ctx, deadletter.Letter{Workflow: "mail", Error: "bounced"})
		world.CodeIs(t, err, journal.CodeMisuse)
		world.CodeIs(t, in.MarkHandled(ctx, "x", ""), journal.CodeMisuse)
		world.CodeIs(t, in.DeleteDeadLetter(ctx, "x", admin.Note{}), journal.CodeMisuse)
		if left := letters(w, admin.DeadLetterQuery{}); len(left) != 0 {
			t.Errorf("there are %+v", left)
		}
	})
}

// The input of a dead letter from outside may be large, whoever adds it.
//
// spec: P-4
func TestALargeDeadLetterIsAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.With(t, perdure.Options{MaxPayload: 1 << 20})
		defer w.End()
		client := world.Must[*perdure.Client](t)(perdure.NewClient(t.Context(), w.DB))
		text := func(n int) []byte { return append(bytes.Repeat([]byte("1"), n-1), '2') }
		for _, c := range []*perdure.Client{w.Engine.Client, client} {
			l := deadletter.Letter{Workflow: "mail", Error: "bounced", Input: text(200_000)}
			id := world.Must[string](t)(admin.New(c).AddDeadLetter(t.Context(), l))
			got := world.Must[deadletter.Letter](t)(admin.New(c).DeadLetter(t.Context(), id))
			if !bytes.Equal(got.Input, l.Input) {
				t.Errorf("its input has %d bytes", len(got.Input))
			}
		}
		_, err := admin.New(w.Engine).AddDeadLetter(t.Context(), deadletter.Letter{
			Workflow: "mail", Error: "bounced", Input: text(1 << 20),
		})
		world.CodeIs(t, err, journal.CodeTooLarge)
	})
}

// handled returns the dead letters that were marked as handled.
func handled(w *world.World) []deadletter.Letter {
	w.T.Helper()
	return letters(w, admin.DeadLetterQuery{Handled: true})
}

// spec: P-4
func TestADeadLetterIsMarkedAsHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHands("charge")
		order := s.order(deadletter.Automatic(true))
		w := world.New(t, order)
		defer func() { w.End() }()
		ctx := t.Context()
		for i := range 4 {
			ends(t, world.Start(w, order, i, perdure.ID(fmt.Sprint("ord-", i))), "broken")
		}
		all := letters(w, admin.DeadLetterQuery{}) // of ord-3 to ord-0
		a := admin.New(w.Engine)
		time.Sleep(time.Minute)
		at := time.Now().UTC()
		world.NoError(t, a.MarkHandled(ctx, all[3].ID, "ada: paid by hand"))
		by := admin.Note{By: "ada", Reason: "paid by hand"}
		world.NoError(t, a.DeleteDeadLetter(ctx, all[2].ID, by))
		deleted := w.History(all[2].ID)
		if d := deleted[len(deleted)-1].Detail; d.By != by.By || d.Reason != by.Reason {
			t.Errorf("the journal of a deleted letter ends with %+v", d)
		}
		got := handled(w)
		want := all[3]
		want.HandledAt, want.Note = at, "ada: paid by hand"
		if len(got) != 1 || fmt.Sprintf("%+v", got[0]) != fmt.Sprintf("%+v", want) {
			t.Errorf("handled are\n%+v\nwant\n%+v", got, want)
		}
		if open := letters(w, admin.DeadLetterQuery{}); len(open) != 2 {
			t.Errorf("open are %+v", open)
		}
		_, err := a.DeadLetter(ctx, want.ID)
		world.CodeIs(t, err, journal.CodeNotFound)
		_, err = a.RetryDeadLetter(ctx, want.ID)
		world.CodeIs(t, err, journal.CodeNotFound)
		world.CodeIs(t, a.MarkHandled(ctx, want.ID, "bob"), journal.CodeNotFound)
		world.CodeIs(t, a.MarkHandled(ctx, "no ID", "bob"), journal.CodeInvalid)
		world.CodeIs(t, a.DeleteDeadLetter(ctx, want.ID, admin.Note{}), journal.CodeNotFound)

		ends(t, retry(w, order, "ord-0"), "broken") // it has failed again
		if open := letters(w, admin.DeadLetterQuery{WorkflowID: "ord-0"}); len(open) != 1 ||
			open[0].ID != want.ID || !open[0].HandledAt.IsZero() {
			t.Errorf("of a run that was retried after the mark are open %+v", open)
		}
		w.Crash()
		if again := handled(w); len(again) != 1 || fmt.Sprint(again) != fmt.Sprint(got) {
			t.Errorf("handled are %+v", again)
		}
		s.breaks()
		retryLetter(w, all[0].ID, "")
		if again := handled(w); len(again) != 1 {
			t.Errorf("a letter that a retry has settled is handled: %+v", again)
		}
	})
}

// A mark that comes while no engine runs holds at once for the list of open dead letters. One mark
// holds, however many come at a time.
//
// spec: P-4
func TestADeadLetterIsMarkedWithoutAnEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t)
		w.Kill()
		ctx := t.Context()
		// all have read the dead letter before the first of them marks it
		slow := &world.Hook{Store: w.DB, OnLoad: func(journal.Number, store.Range) error {
			time.Sleep(time.Millisecond)
			return nil
		}}
		a := admin.New(world.Must[*perdure.Client](t)(perdure.NewClient(ctx, slow)))
		id := world.Must[string](t)(a.AddDeadLetter(ctx, deadletter.Letter{
			Workflow: "mail", Error: "bounced",
		}))
		var wg sync.WaitGroup
		var mu sync.Mutex
		var notes []string
		for i := range 8 {
			wg.Go(func() {
				note := fmt.Sprint("operator ", i)
				err := a.MarkHandled(ctx, id, note)
				if err != nil {
					world.CodeIs(t, err, journal.CodeNotFound)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				notes = append(notes, note)
			})
		}
		wg.Wait()
		open, _, err := a.DeadLetters(ctx, admin.DeadLetterQuery{})
		if err != nil || len(open) != 0 {
			t.Errorf("open are %+v, %v", open, err)
		}
		world.CodeIs(t, a.MarkHandled(ctx, id, "late"), journal.CodeNotFound)
		w.Begin()
		defer w.End()
		if got := handled(w); len(notes) != 1 || len(got) != 1 || got[0].Note != notes[0] {
			t.Errorf("marked by %v, and handled are %+v", notes, got)
		}
	})
}

// The process dies after every commit while a dead letter is added and marked.
//
// spec: P-4
func TestAddedAndHandledDeadLettersOverCrashes(t *testing.T) {
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		ctx := context.Background()
		var id string
		err := env.Do(func(e *perdure.Engine) (err error) {
			id, err = admin.New(e).AddDeadLetter(ctx, deadletter.Letter{
				Workflow: "mail", WorkflowID: "m-1", Error: "bounced",
			})
			return err
		})
		if err != nil {
			t.Error(err)
		}
		env.Sleep(time.Minute)
		if err := env.Do(func(e *perdure.Engine) error {
			err := admin.New(e).MarkHandled(ctx, id, "ada")
			if journal.CodeOf(err) == journal.CodeNotFound { // it is marked, and the answer lost
				return nil
			}
			return err
		}); err != nil {
			t.Error(err)
		}
		env.Sleep(time.Minute)
		var seen []string
		if err := env.Do(func(e *perdure.Engine) error {
			open, _, err := admin.New(e).CountDeadLetters(ctx, admin.DeadLetterQuery{})
			if err != nil {
				return err
			}
			got, _, err := admin.New(e).DeadLetters(ctx, admin.DeadLetterQuery{Handled: true})
			seen = []string{fmt.Sprint(open, " open")}
			for _, l := range got {
				seen = append(seen, l.ID+" "+l.Note)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
		return seen
	})
}

// The function that takes dead letters takes those from outside, too.
//
// spec: P-4, P-15
func TestSomebodyElseTakesAddedLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var taken []deadletter.Letter
		w := &world.World{T: t, DB: memory.New()}
		w.Options.Build = "test"
		w.Options.DeadLetters = func(_ context.Context, l deadletter.Letter) error {
			taken = append(taken, l)
			return nil
		}
		w.Begin()
		defer w.End()
		id := world.Must[string](t)(admin.New(w.Engine).AddDeadLetter(t.Context(),
			deadletter.Letter{Workflow: "mail", Error: "bounced"}))
		synctest.Wait()
		if len(taken) != 1 || taken[0].ID != id || taken[0].Error != "bounced" {
			t.Errorf("taken are %+v", taken)
		}
	})
}
