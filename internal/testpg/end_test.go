//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package testpg

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// victim names the variable that makes this binary run the tests to be ended.
const victim = "TESTPG_VICTIM"

// pattern names the variable with a data directory for that binary, to save an initdb.
const pattern = "TESTPG_PATTERN"

// TestVictim runs in a process of its own. It starts servers and reports where. When its
// input ends, it ends in the requested way, unless it was killed before.
func TestVictim(t *testing.T) {
	how := os.Getenv(victim)
	if how == "" {
		t.Skip("run by TestNothingIsLeftOfATestBinaryHoweverItEnds")
	}
	h, err := home()
	need(t, err)
	h.pattern = func() (string, error) { return os.Getenv(pattern), nil }
	connect(t, URL(t))
	s := Start(t)
	s.Kill()
	s.Restart()
	connect(t, s.URL())
	if how == "is killed while it initialises" {
		again := filepath.Join(h.dir, "again")
		go h.run(h.tools.initdb, "-D", again, "--no-sync")
		for !exists(filepath.Join(again, "PG_VERSION")) {
			continue
		}
	}
	fmt.Println("place", h.dir)
	io.Copy(io.Discard, os.Stdin)
	switch how {
	case "panics":
		go panic("as told")
		select {}
	case "exits":
		os.Exit(3)
	}
}

func TestNothingIsLeftOfATestBinaryHoweverItEnds(t *testing.T) {
	h, err := home()
	need(t, err)
	data, err := h.pattern()
	need(t, err)
	endings := map[string]func(pid int) error{
		"returns": nil,
		"panics":  nil,
		"exits":   nil,
		"is killed": func(pid int) error {
			return syscall.Kill(pid, syscall.SIGKILL)
		},
		"is killed with its group": func(pid int) error {
			return syscall.Kill(-pid, syscall.SIGKILL)
		},
		"is killed while it initialises": func(pid int) error {
			return syscall.Kill(pid, syscall.SIGKILL)
		},
		"is interrupted with its group": func(pid int) error {
			return syscall.Kill(-pid, syscall.SIGINT)
		},
	}
	for how, end := range endings {
		t.Run(how, func(t *testing.T) { endAndLook(t, how, data, end) })
	}
}

func endAndLook(t *testing.T, how, data string, end func(pid int) error) {
	//nolint:usetesting // the account of the servers cannot enter t.TempDir
	parent, err := os.MkdirTemp(parent(), "testpg-parent-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(parent)
	if err := os.Chmod(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestVictim$")
	cmd.Env = append(os.Environ(), victim+"="+how, pattern+"="+data, "TMPDIR="+parent)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var place string
	said := bufio.NewScanner(out)
	for place == "" && said.Scan() {
		place, _ = strings.CutPrefix(said.Text(), "place ")
	}
	lock, err := os.Open(place + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if end != nil {
		if err := end(cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
	}
	in.Close()
	io.Copy(io.Discard, out)
	if err := cmd.Wait(); (err == nil) != (how == "returns") {
		t.Errorf("the tests ended with %v", err)
	}
	// Every process that they have started has the lock: the servers, the watchdog.
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(parent)
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestKillReturnsWhenTheLastProcessOfTheServerHasLeft(t *testing.T) {
	s := Start(t)
	at := s.URL()
	busy := exec.Command(s.home.tools.psql, "-X", "-d", at, "-c", "select pg_sleep(600)")
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	defer busy.Wait()
	defer busy.Process.Kill()
	backend := 0
	for backend == 0 {
		backend, _ = strconv.Atoi(
			ask(t, at, "select pid from pg_stat_activity where query = 'select pg_sleep(600)'"))
	}
	if err := syscall.Kill(backend, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	goOn := sync.OnceValue(func() error { return syscall.Kill(backend, syscall.SIGCONT) })
	defer goOn()
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		s.Kill()
	}()
	for exists(filepath.Join(s.dir, "pid")) {
		runtime.Gosched() // until the postmaster has ended
	}
	for range 1000 {
		select {
		case <-killed:
			t.Fatal("killed, it says, and a backend is still there")
		default:
			runtime.Gosched()
		}
	}
	if err := goOn(); err != nil {
		t.Fatal(err)
	}
	<-killed
	s.Restart()
	ask(t, at, "select 1")
}

func TestWhatKilledProcessesLeftIsRemovedOnceNobodyUsesIt(t *testing.T) {
	parent := t.TempDir()
	leave := func(name string, locked bool) {
		if err := os.MkdirAll(filepath.Join(parent, prefix+name, "1", "data"), 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(filepath.Join(parent, prefix+name+".lock"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		if locked && !tryLock(f) {
			t.Fatal("a new file is locked")
		}
	}
	leave("used", true)
	leave("left", false)
	if err := os.Mkdir(filepath.Join(parent, "others"), 0o700); err != nil {
		t.Fatal(err)
	}
	sweep(parent)
	var names []string
	left, err := os.ReadDir(parent)
	for _, e := range left {
		names = append(names, e.Name())
	}
	if got, want := strings.Join(names, " "), "others "+prefix+"used "+prefix+
		"used.lock"; got != want || err != nil {
		t.Errorf("after the sweep there are %s, not %s; %v", got, want, err)
	}
}
