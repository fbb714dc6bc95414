package testpg

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// query runs one statement and returns its result without blanks.
func query(t *testing.T, at, statement string) (string, error) {
	t.Helper()
	b, err := findTools(folders)
	need(t, err)
	cmd := exec.Command(b.psql, "-X", "-A", "-t", "-w", "-d", at, "-c", statement)
	cmd.Env = append(plainEnv(), "PGCONNECT_TIMEOUT=30")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func ask(t *testing.T, at, statement string) string {
	t.Helper()
	said, err := query(t, at, statement)
	if err != nil {
		t.Fatalf("%s: %v: %s", statement, err, said)
	}
	return said
}

func TestEveryURLIsAnEmptyDatabaseOfOneServer(t *testing.T) {
	a, b := URL(t), URL(t)
	ask(t, a, "create table things (id int)")
	ask(t, b, "create table things (id int)")
	if a, b := ask(t, a, "select pg_postmaster_start_time()"),
		ask(t, b, "select pg_postmaster_start_time()"); a != b {
		t.Errorf("two servers: started at %s and %s", a, b)
	}
	if got := ask(t, URL(t), "select count(*) from pg_class where relname = 'things'"); got != "0" {
		t.Errorf("a fresh database has %s tables of others", got)
	}
}

func TestADatabaseIsDroppedWithItsTestAlsoWhereItIsInUse(t *testing.T) {
	outside := URL(t)
	t.Run("inner", func(t *testing.T) {
		at := URL(t)
		conn := connect(t, at)
		t.Logf("left open by the test: %v", conn.LocalAddr())
	})
	if got := ask(t, outside, "select count(*) from pg_database where datname like "+
		"'%_inner'"); got != "0" {
		t.Errorf("%s databases are left of the inner test", got)
	}
}

func TestTheSharedServerKeepsWhatItAcknowledges(t *testing.T) {
	at := URL(t)
	for _, name := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		if got := ask(t, at, "show "+name); got != "on" {
			t.Errorf("%s is %s", name, got)
		}
	}
	if got := ask(t, at, "show max_connections"); got != "200" {
		t.Errorf("max_connections is %s", got)
	}
}

func TestAServerOfOnesOwnHasItsSettings(t *testing.T) {
	s := Start(t, Setting("fsync", "off"), Setting("cluster_name", "it's ours"),
		Setting("max_connections", "17"))
	at := s.URL()
	for name, want := range map[string]string{
		"fsync":            "off",
		"cluster_name":     "it's ours",
		"max_connections":  "17",
		"full_page_writes": "on",
	} {
		if got := ask(t, at, "show "+name); got != want {
			t.Errorf("%s is %s, not %s", name, got, want)
		}
	}
	if shared := ask(t, URL(t), "show fsync"); shared != "on" {
		t.Errorf("fsync of the shared server is %s", shared)
	}
}

func TestAServerStopsInEveryModeAndStartsAgainWithItsData(t *testing.T) {
	s := Start(t)
	at := s.URL()
	ask(t, at, "create table things (id int)")
	for name, end := range map[string]func(){
		"smart":     func() { s.Stop(Smart) },
		"fast":      func() { s.Stop(Fast) },
		"immediate": func() { s.Stop(Immediate) },
		"kill":      s.Kill,
	} {
		t.Run(name, func(t *testing.T) {
			before := ask(t, at, "select count(*) from things")
			ask(t, at, "insert into things values (1)")
			end()
			if said, err := query(t, at, "select 1"); err == nil {
				t.Fatalf("a stopped server answers %s", said)
			}
			if conn, err := net.Dial("tcp", s.Addr()); err == nil {
				conn.Close()
				t.Fatal("a stopped server listens")
			}
			s.Restart()
			if after := ask(t, at, "select count(*) from things"); len(after) != len(before) ||
				after <= before {
				t.Errorf("%s rows after one was added to %s", after, before)
			}
			wantRecovery := name == "immediate" || name == "kill"
			if got := strings.Contains(s.log(), "was not properly shut down"); got != wantRecovery {
				t.Errorf("recovered: %v; log:\n%s", got, s.log())
			}
		})
	}
	s.Stop(Fast)
	s.Stop(Fast) // nothing to do
	s.Restart()
	s.Restart()
	ask(t, at, "select 1")
}

func TestAServerThatEndsKilledLeavesNoSharedMemory(t *testing.T) {
	var killed string
	t.Run("inner", func(t *testing.T) {
		s := Start(t)
		killed = strconv.Itoa(s.proc.Pid)
		s.Kill()
	})
	segments, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		t.Skip("segments of shared memory are listed on Linux only")
	}
	for line := range strings.Lines(string(segments)) {
		// key, shmid, perms, size, cpid: the process that created it
		if f := strings.Fields(line); len(f) > 4 && f[4] == killed {
			t.Errorf("left: %s", line)
		}
	}
}

func TestADirectoryIsRemovedWithItsTest(t *testing.T) {
	var dir string
	t.Run("inner", func(t *testing.T) { dir = Start(t).dir })
	if exists(dir) {
		t.Errorf("%s is left", dir)
	}
}

// connect opens a session and sends only the greeting.
func connect(t *testing.T, at string) net.Conn {
	t.Helper()
	host, name := splitURL(t, at)
	conn, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	said := "user\x00perdure\x00database\x00" + name + "\x00\x00"
	hello := append([]byte{0, 0, 0, byte(8 + len(said)), 0, 3, 0, 0}, said...)
	if _, err := conn.Write(hello); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 1)
	if _, err := conn.Read(answer); err != nil || answer[0] != 'R' {
		t.Fatalf("the server answers %q, %v", answer, err)
	}
	return conn
}

func splitURL(t *testing.T, at string) (host, name string) {
	t.Helper()
	rest, ok := strings.CutPrefix(at, "postgres://perdure@")
	host, rest, ok2 := strings.Cut(rest, "/")
	name, _, ok3 := strings.Cut(rest, "?")
	if !ok || !ok2 || !ok3 {
		t.Fatalf("%s is not a URL of ours", at)
	}
	return host, name
}
