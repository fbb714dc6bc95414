package sqlmemory_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/orchestrator"
	"github.com/perdure/perdure/orchestrator/sqlmemory"
)

// workEnv names the variable with a file in which the test binary works until it is killed, and
// nameEnv the one with the name for its marks.
const (
	workEnv = "PERDURE_TEST_WORK"
	nameEnv = "PERDURE_TEST_NAME"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(workEnv); path != "" {
		fmt.Println(workIn(path))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// An answer is the token that a worker was given, or the version that its mark has become.
type answer struct {
	Subject string
	Token   orchestrator.Token
	Version int64
	Mark    string
}

var subjects = []string{"a", "b"}

// work adds marks to the states of subjects, until a call fails. It reports each answer.
func work(m *memory, name string, report func(answer)) error {
	ctx := context.Background()
	for n := 0; ; n++ {
		a := answer{Subject: subjects[n%len(subjects)], Mark: fmt.Sprint(name, ".", n)}
		token, err := m.Lock(ctx, a.Subject, 300*time.Millisecond, nil)
		if err != nil {
			return err
		}
		if token == 0 {
			continue
		}
		report(answer{Subject: a.Subject, Token: token})
		prev, err := m.Read(ctx, a.Subject, nil)
		if err != nil {
			return err
		}
		c := change{Prev: prev, Lock: token, Next: value{Text: a.Mark}}
		if a.Version = 1; prev != nil {
			a.Version, c.Next.Text = prev.Version+1, prev.Value.Text+" "+a.Mark
		}
		switch err := m.Write(ctx, a.Subject, c, nil); {
		case err == nil:
			report(a)
		case !errors.Is(err, orchestrator.ErrFenced):
			return err // an ErrConflict, too: nobody else has the lock
		}
		if _, err := m.Unlock(ctx, a.Subject, token, nil); err != nil {
			return err
		}
	}
}

// A ledger has the answers.
type ledger struct {
	mu      sync.Mutex
	answers []answer
	enough  chan struct{} // is closed when this round has enough answers
	left    int           // until then
}

// expects begins a round that ends after some answers.
func (l *ledger) expects(n int) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enough, l.left = make(chan struct{}), n
	return l.enough
}

// await waits until a round has enough answers.
func await(t *testing.T, enough <-chan struct{}, workers *sync.WaitGroup) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		workers.Wait()
	}()
	select {
	case <-enough:
	case <-ended:
		t.Fatal("all workers have ended")
	}
}

func (l *ledger) enter(a answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers = append(l.answers, a)
	if l.left--; l.left == 0 {
		close(l.enough)
	}
}

// check compares what a memory has with the answers. Nobody works meanwhile.
func (l *ledger) check(t *testing.T, m *memory) {
	t.Helper()
	marks, given := map[string][]string{}, map[string]map[orchestrator.Token]bool{}
	for _, subject := range subjects {
		given[subject] = map[orchestrator.Token]bool{}
		s, err := m.Read(t.Context(), subject, nil)
		if err != nil {
			t.Fatalf("read of %s: %v", subject, err)
		}
		if s == nil { // a worker was killed before its first write, and no other had the lock
			s = &state{}
		}
		marks[subject] = strings.Fields(s.Value.Text)
		if all := slices.Sorted(slices.Values(marks[subject])); s.Version != int64(len(all)) ||
			len(slices.Compact(all)) != len(marks[subject]) {
			t.Errorf("version %d of %s has the marks %s", s.Version, subject, s.Value.Text)
		}
	}
	for _, a := range l.answers {
		switch all := marks[a.Subject]; {
		case a.Token > 0 && given[a.Subject][a.Token]:
			t.Errorf("token %d of %s was given twice", a.Token, a.Subject)
		case a.Token > 0:
			given[a.Subject][a.Token] = true
		case int64(len(all)) < a.Version || all[a.Version-1] != a.Mark:
			t.Errorf("version %d of %s is not %s: there are %d versions", a.Version, a.Subject,
				a.Mark, len(all))
		}
	}
	for _, subject := range subjects {
		last := orchestrator.Token(0)
		for token := range given[subject] {
			last = max(last, token)
		}
		var next orchestrator.Token
		for next == 0 { // the lock of a killed holder passes
			var err error
			if next, err = m.Lock(t.Context(), subject, time.Microsecond, nil); err != nil {
				t.Fatal(err)
			}
		}
		if next <= last {
			t.Errorf("token %d of %s follows token %d", next, subject, last)
		}
	}
}

// spec
func TestAKilledPostgresKeepsWhatItHasAcknowledged(t *testing.T) {
	const rounds, workers, answers = 4, 4, 150
	t.Parallel()
	server := testpg.Start(t)
	b := base{"pgx", server.URL(), sqlmemory.PostgreSQL}
	l := &ledger{}
	for round := range rounds {
		enough := l.expects(answers)
		var group sync.WaitGroup
		for i := range workers {
			m := b.open(t)
			group.Go(func() {
				err := work(m, fmt.Sprint(round, ".", i), l.enter)
				if t.Log(err); errors.Is(err, orchestrator.ErrConflict) {
					t.Error("somebody has written without the lock")
				}
			})
		}
		await(t, enough, &group)
		server.Kill()
		group.Wait()
		server.Restart()
		l.check(t, b.open(t))
	}
}

// workIn works in a file, and writes the answers to the output.
func workIn(path string) error {
	b := file(path, waits)
	db, err := sql.Open(b.driver, b.at)
	if err != nil {
		return err
	}
	m, err := sqlmemory.Open[value](context.Background(), db, b.dialect)
	if err != nil {
		return err
	}
	return work(m, os.Getenv(nameEnv), func(a answer) {
		fmt.Println(a.Subject, a.Token, a.Version, "m"+a.Mark)
	})
}

// spec
func TestKilledProcessesLeaveWhatWasAcknowledgedInSQLite(t *testing.T) {
	const rounds, workers, answers = 4, 2, 60
	t.Parallel()
	path := filepath.Join(t.TempDir(), "app.db")
	l := &ledger{}
	for round := range rounds {
		enough := l.expects(answers)
		var group sync.WaitGroup
		var children []*exec.Cmd
		for i := range workers {
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), workEnv+"="+path,
				nameEnv+"="+fmt.Sprint(round, ".", i))
			out, err := child.StdoutPipe()
			if err == nil {
				err = child.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			children = append(children, child)
			group.Go(func() {
				for lines := bufio.NewScanner(out); lines.Scan(); {
					var a answer
					if _, err := fmt.Sscanf(lines.Text(), "%s %d %d m%s", &a.Subject, &a.Token,
						&a.Version, &a.Mark); err != nil && a.Token == 0 {
						t.Errorf("a process says %s", lines.Text())
						continue
					}
					l.enter(a)
				}
			})
		}
		await(t, enough, &group)
		for _, child := range children {
			if err := child.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
		group.Wait()
		for _, child := range children {
			child.Wait()
		}
		l.check(t, file(path, waits).open(t))
	}
}
