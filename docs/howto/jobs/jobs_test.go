package howto

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/schedule"
	"github.com/perdure/perdure/store/sqlite"
)

// A server takes mails.
type server struct {
	mu    sync.Mutex
	sent  []string
	busy  int // how often it is busy first
	began []time.Time
}

func (s *server) Send(_ context.Context, _, to string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began = append(s.began, time.Now())
	switch {
	case strings.HasPrefix(to, "nobody"):
		return "", ErrNoAddress
	case s.busy > 0:
		s.busy--
		return "", ErrBusy
	}
	s.sent = append(s.sent, to)
	return "receipt of " + to, nil
}

func TestMailsAreSentAtTheirTimeSnoozedAndGivenUp(t *testing.T) {
	s := &server{busy: 1}
	welcome := Welcome(Gentle{s})
	perduretest.Test(t, func(env *perduretest.Env) {
		began := time.Now()
		eight := began.Add(time.Hour)
		if err := env.Do(func(e *perdure.Engine) error {
			return Newsletter(env.Context(), e, welcome, []Mail{{To: "ada"}, {To: "nobody"}}, eight)
		}); err != nil {
			env.Fatal(err)
		}
		day := "news-" + eight.Format(time.DateOnly) + "-"
		perduretest.Get(env, welcome, day+"ada").Is(journal.Pending)
		perduretest.Get(env, welcome, day+"ada").Returns("receipt of ada")
		nobody := perduretest.Get(env, welcome, day+"nobody")
		nobody.Is(journal.Failed)
		nobody.Executed("work", 1)
		if s.began[0].Before(eight) || time.Since(eight) < 10*time.Minute {
			env.Errorf("mails were sent at %v", s.began)
		}
	}, welcome)
}

func TestCleanupIsStartedAtNight(t *testing.T) {
	perduretest.Test(t, func(env *perduretest.Env) {
		env.Sleep(49 * time.Hour)
		s, err := schedule.Get(env.Context(), env.Engine(), "cleanup-nightly")
		if err != nil || s.Started != 2 {
			env.Errorf("%d runs, %v", s.Started, err)
		}
	}, Cleanup)
}

// A job is there exactly if its transaction is committed.
func TestASignUpInsertsItsJob(t *testing.T) {
	ctx := t.Context()
	file := filepath.Join(t.TempDir(), "db")
	store, err := sqlite.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("create table customers (address text)"); err != nil {
		t.Fatal(err)
	}
	welcome := Welcome(&server{})
	engine, err := perdure.New(store, perdure.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Register(welcome); err != nil {
		t.Fatal(err)
	}
	run, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- engine.Run(run) }()
	defer func() { stop(); <-done }()
	transactions := sqlite.Transactions(db)
	for _, address := range []string{"ada", "bob"} {
		tx, err := transactions.Begin(ctx)
		if err == nil {
			err = SignUp(ctx, engine, tx, welcome, address)
		}
		if err == nil && address == "ada" {
			err = transactions.Commit(ctx, tx)
		} else {
			err = errors.Join(err, transactions.Rollback(ctx, tx))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ada, err := welcome.Get(ctx, engine, "welcome-ada")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := ada.Result(ctx); err != nil || out != "receipt of ada" {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := welcome.Get(ctx, engine, "welcome-bob"); journal.CodeOf(err) !=
		journal.CodeNotFound {
		t.Errorf("of a transaction that was rolled back: %v", err)
	}
}
