package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// postEnv makes the test binary another process that posts to the named database until its input
// ends.
const postEnv = "PERDURE_TEST_POST"

// strange reads lines with a prefix and a number of messages, posts that many messages, and answers
// each line.
func strange(path string) error {
	s, err := Open(path)
	if err != nil {
		return err
	}
	defer s.Close()
	prefix, count := "", 0
	for {
		if _, err := fmt.Scanln(&prefix, &count); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		for sent := 0; sent < count; {
			g := &store.Group{Now: noon, Changes: make([]store.Change, 1)}
			for c := &g.Changes[0]; sent < count && len(c.Posts) < 50; sent++ {
				id := fmt.Sprintf("%s-%d", prefix, sent)
				c.Posts = append(c.Posts, store.Post{
					WorkflowID: "inbox", Message: signal("paid", id, []byte(id)),
				})
			}
			if err := s.Commit(context.Background(), g); err != nil {
				return err
			}
			for _, p := range g.Changes[0].Posts {
				if p.Verdict != store.Delivered {
					return fmt.Errorf("the verdict on %s is %d", p.Message.Data, p.Verdict)
				}
			}
		}
		fmt.Println("posted")
	}
}

// A poster is another process that posts.
type poster struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
}

func newPoster(t *testing.T, path string) *poster {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), postEnv+"="+path)
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := child.Wait(); err != nil {
			t.Errorf("the other process: %v", err)
		}
	})
	return &poster{t: t, in: in, out: bufio.NewReader(out)}
}

// post makes the other process post and returns when it has done so.
func (s *poster) post(prefix string, count int) {
	if _, err := fmt.Fprintln(s.in, prefix, count); err != nil {
		s.t.Error(err)
		return
	}
	if line, err := s.out.ReadString('\n'); err != nil || line != "posted\n" {
		s.t.Errorf("the other process says %q, %v", line, err)
	}
}

// inbox opens a database whose engine has joined and owns the run "inbox".
func inbox(t *testing.T) (s *Store, path string, engine journal.EngineID, run journal.Number) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "runs.db")
	s = mustOpen(t, path)
	got, err := join(s)
	if err != nil {
		t.Fatal(err)
	}
	g := start(s, got.Engine, 1)
	g.Changes[0].Head.WorkflowID = "inbox"
	if err := s.Commit(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	return s, path, got.Engine, g.Changes[0].Run
}

// TestWatchSeesAnotherProcess looks for messages only when it is notified, so that a missed
// notification fails the test.
func TestWatchSeesAnotherProcess(t *testing.T) {
	s, path, engine, run := inbox(t)
	other := newPoster(t, path)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	told, ended := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(ended)
		s.Watch(ctx, func() {
			select {
			case told <- struct{}{}:
			default:
			}
		})
	}()
	seen, want := 0, 0
	wait := func(prefix string, count int) {
		t.Helper()
		other.post(prefix, count)
		for want += count; seen < want; {
			select {
			case <-told:
			case <-ctx.Done():
				t.Fatalf("%s: of %d messages %d were told of", prefix, want, seen)
			}
			// A Load does not ask whether others have written.
			messages, err := s.Load(context.Background(), run, store.Range{Inbox: true})
			if err != nil {
				t.Fatal(err)
			}
			seen = len(messages)
		}
	}
	checkpoint := func(mode string) {
		t.Helper()
		s.writing.Lock()
		defer s.writing.Unlock()
		if _, err := s.writer.value("pragma wal_checkpoint(" + mode + ")"); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		wait(fmt.Sprint("quick", i), 1)
	}
	for i := range 5 {
		if err := s.Commit(ctx, step(engine, run, int64(2+i), nil)); err != nil {
			t.Fatal(err)
		}
		wait(fmt.Sprint("between", i), 3)
	}
	for i, mode := range []string{"passive", "restart", "truncate", "passive", "truncate"} {
		checkpoint(mode)
		wait(fmt.Sprint(mode, i), 2)
	}
	cancel()
	<-ended
}

// TestOwnCommitsAreNotToldOf asks after each commit, as the watcher does when the log has changed.
func TestOwnCommitsAreNotToldOf(t *testing.T) {
	s, path, engine, run := inbox(t)
	s.watching.Add(1)
	l := log{name: path + "-wal", size: -2}
	s.look(&l)
	noticed := s.otherWrites.next()
	for seq := int64(2); seq < 50; seq++ {
		if err := s.Commit(t.Context(), step(engine, run, seq, nil)); err != nil {
			t.Fatal(err)
		}
		if !l.mayDiffer() {
			t.Fatal("the log has changed, and it does not say so")
		}
		s.look(&l)
	}
	select {
	case <-noticed:
		t.Fatal("an own commit is told of")
	default:
	}

	// A commit of another handle counts as another's, and the next commit sees it.
	if err := mustOpen(t, path).Commit(t.Context(), start(s, 0, 77)); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), step(engine, run, 50, nil)); err != nil {
		t.Fatal(err)
	}
	<-noticed

	// Without a connection to ask, another process may have written.
	noticed = s.otherWrites.next()
	s.writing.Lock()
	err := s.writer.close()
	s.writer = nil
	s.writing.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	s.look(&l)
	<-noticed
}

func TestLogIsDoubtedForSomeTime(t *testing.T) {
	l := log{name: filepath.Join(t.TempDir(), "runs.db-wal"), size: -2}
	settle := func() {
		t.Helper()
		for range doubtful {
			if !l.mayDiffer() {
				return
			}
		}
		t.Fatal("it is asked for ever")
	}
	differs := func(what string) {
		t.Helper()
		for i := range doubtful - 1 {
			if !l.mayDiffer() {
				t.Fatalf("%s: it is not asked the %dth time", what, i+1)
			}
		}
		settle()
	}
	differs("not there")
	write := func(size int) {
		t.Helper()
		if err := os.WriteFile(l.name, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		// This time surely differs, however coarse the clock of the file system is.
		l.changed = l.changed.Add(-time.Hour)
	}
	write(10)
	differs("new")
	write(20)
	differs("longer")
	write(20)
	differs("written over")
	write(0)
	differs("cut off")
	if err := os.Remove(l.name); err != nil {
		t.Fatal(err)
	}
	differs("gone")
}

func TestExclusiveWatchesNobody(t *testing.T) {
	s, err := OpenWith(filepath.Join(t.TempDir(), "runs.db"), Options{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Watch(ctx, func() { t.Error("it is told of something") })
}

// TestTwoProcessesPost makes two other processes post while the engine commits as fast as it can.
// None of them gets an error of a lock, and nothing is lost.
func TestTwoProcessesPost(t *testing.T) {
	const each = 5000
	s, path, engine, run := inbox(t)
	done := make(chan struct{}, 2)
	for _, name := range []string{"one", "two"} {
		other := newPoster(t, path)
		go func() {
			other.post(name, each)
			done <- struct{}{}
		}()
	}
	seq := int64(2)
	for left := 2; left > 0; seq++ {
		if err := s.Commit(t.Context(), step(engine, run, seq, []byte(`{"n":1}`))); err != nil {
			t.Fatal(err)
		}
		select {
		case <-done:
			left--
		default:
		}
	}
	t.Logf("the engine has committed %d times meanwhile", seq)
	wantEntries(t, s, run, seq-1)
	messages, err := s.Load(t.Context(), run, store.Range{Inbox: true})
	if err != nil || len(messages) != 2*each {
		t.Fatalf("there are %d messages, %v", len(messages), err)
	}
	next := map[string]int{}
	for i, m := range messages {
		name := string(m.Data[:3])
		if m.Seq != int64(i+1) || string(m.Data) != fmt.Sprintf("%s-%d", name, next[name]) ||
			m.Detail.Message != string(m.Data) {
			t.Fatalf("message %d is %+v", i+1, m)
		}
		next[name]++
	}
	heads, _, err := s.Find(t.Context(), store.Filter{WorkflowID: "inbox"})
	if err != nil || len(heads) != 1 || heads[0].Mail != 2*each {
		t.Fatalf("the head is %+v, %v", heads, err)
	}
}

// A client on the handle of an engine is heard, also where no other process may write: the engine
// does not know of its writes.
//
// spec: L-6
func TestAClientOnTheSameHandleIsHeard(t *testing.T) {
	for _, exclusive := range []bool{false, true} {
		t.Run(fmt.Sprint("exclusive=", exclusive), func(t *testing.T) {
			s, err := OpenWith(filepath.Join(t.TempDir(), "runs.db"), Options{Exclusive: exclusive})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			ctx, cancel := context.WithCancel(t.Context())
			heard, done := make(chan struct{}, 100), make(chan struct{})
			go func() {
				defer close(done)
				s.Watch(ctx, func() { heard <- struct{}{} })
			}()
			if !exclusive {
				<-heard // it has begun
			}
			for n := int64(1); ; n++ { // until the watch has begun
				if err := s.Commit(ctx, start(s, 0, n)); err != nil {
					t.Fatal(err)
				}
				select {
				case <-heard:
					cancel()
					<-done
					return
				case <-time.After(10 * time.Millisecond):
				}
				if n == 1000 {
					t.Fatal("a client is not heard")
				}
			}
		})
	}
}
