package testpg

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

const prefix = "perdure-testpg-"

// A place is the directory of all servers of this process, with the resources to remove it.
//
// Beside the directory is a lock file. The watchdog and every process of every server inherit
// its lock. A process that gets the lock therefore knows that none of them is left.
type place struct {
	tools   tools
	account *account // nil for the account of the tests
	dir     string
	lock    *os.File
	leash   *os.File // the watchdog acts when no process has it open any more
	servers atomic.Int32
	pattern func() (string, error) // an initialised data directory to copy
}

// An account is the account that a server runs as.
type account struct{ uid, gid uint32 }

// home returns the place of this process.
var home = sync.OnceValues(func() (*place, error) {
	if !supported {
		return nil, errMissing("skipped: servers for tests are not started on this system; set " +
			Env + " to the URL of one")
	}
	b, err := findTools(folders)
	if err != nil {
		return nil, err
	}
	a, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir := parent()
	sweep(dir)
	return newPlace(dir, b, a)
})

// parent returns the directory for places: TMPDIR if it is set, else memory if there is
// enough of it, else the default temporary directory. Tests kill servers here, not machines,
// so memory is as good as a disk, and several times as fast.
func parent() string {
	if os.Getenv("TMPDIR") == "" && freeBytes(memory) >= 4<<30 {
		return memory
	}
	return os.TempDir()
}

// memory is the directory of the file system in memory that Linux has for all users.
const memory = "/dev/shm"

// unprivileged returns the account for servers if the tests run as root, because PostgreSQL
// refuses to run as root.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			continue
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			continue
		}
		return &account{uint32(uid), uint32(gid)}, nil
	}
	return nil, errMissing("skipped: PostgreSQL does not run as root, and this system has no " +
		"user postgres or nobody")
}

func newPlace(parent string, b tools, a *account) (*place, error) {
	h := &place{tools: b, account: a}
	h.pattern = sync.OnceValues(h.initialise)
	for h.lock == nil {
		h.dir = filepath.Join(parent, prefix+strings.ToLower(rand.Text()[:10]))
		f, err := os.OpenFile(h.dir+".lock", os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		// A sweep in between took the file for left behind: try another name.
		if !locked(f) {
			if err := f.Close(); err != nil {
				return nil, err
			}
			continue
		}
		h.lock = f
	}
	if err := h.mkdir(h.dir); err != nil {
		return nil, err
	}
	return h, h.watch()
}

// locked takes the lock of a file, and reports whether this process has it now and the file
// still has its name.
func locked(f *os.File) bool {
	if !tryLock(f) {
		return false
	}
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(mine, named)
}

// sweep removes the directories that killed processes left behind and that no process uses.
// It ends no process.
func sweep(parent string) {
	locks, err := filepath.Glob(filepath.Join(parent, prefix+"*.lock"))
	if err != nil {
		return
	}
	for _, name := range locks {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if locked(f) && os.RemoveAll(strings.TrimSuffix(name, ".lock")) == nil {
			_ = os.Remove(name) // the next sweep tries again
		}
		_ = f.Close() // nothing was written
	}
}

// mkdir makes a directory that belongs to the servers' account.
func (h *place) mkdir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if h.account == nil {
		return nil
	}
	return os.Chown(dir, int(h.account.uid), int(h.account.gid))
}

// watchdog waits until no process has the leash open any more. Then it ends the remaining
// servers and removes the place. It is in a process group of its own, so it survives if the
// tests are interrupted or killed with their whole group.
//
// A pid file exists from before a server begins until after its end was seen.
const watchdog = `
trap '' HUP INT TERM
while read -r _; do :; done
for f in "$1"/*/pid; do
	[ -s "$f" ] && read -r pid <"$f" || continue
	kill -QUIT "$pid" && kill -CONT "$pid"
	n=0
	while [ -e "${f%pid}data/postmaster.pid" ] && kill -0 "$pid"; do
		n=$((n+1))
		[ $n -lt 100 ] || { kill -KILL "$pid"; break; }
		sleep 0.1 || sleep 1
	done
done
n=0
until rm -rf "$1" && [ ! -e "$1" ]; do
	n=$((n+1))
	[ $n -lt 100 ] || exit 1
	sleep 0.1 || sleep 1
done
rm -f "$1.lock"
`

func (h *place) watch() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	h.leash = w
	cmd := exec.Command("/bin/sh", "-c", watchdog, "testpg-watchdog", h.dir)
	cmd.Dir = "/"
	cmd.Stdin = r
	cmd.ExtraFiles = []*os.File{h.lock}
	cmd.SysProcAttr = attributes(nil)
	if err := cmd.Start(); err != nil {
		return errors.Join(err, r.Close(), w.Close(), os.RemoveAll(h.dir))
	}
	return errors.Join(cmd.Process.Release(), r.Close())
}

// command returns a command that runs a program of PostgreSQL under the account of servers.
func (h *place) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = h.dir
	cmd.Env = plainEnv()
	cmd.SysProcAttr = attributes(h.account)
	return cmd
}

// run runs a program to its end. The watchdog waits for it.
func (h *place) run(program string, args ...string) error {
	cmd := h.command(program, args...)
	cmd.ExtraFiles = []*os.File{h.leash, h.lock}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(program), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// initialise makes the data directory that is copied for every server: initdb takes a second,
// a copy much less.
func (h *place) initialise() (string, error) {
	dir := filepath.Join(h.dir, "pattern")
	return dir, h.run(h.tools.initdb, "-D", dir, "--no-sync", "-A", "trust", "-U", "perdure", "-E",
		"UTF8", "--locale=C")
}

// exists reports whether there is a file or directory of that name.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
