//go:build unix

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	"github.com/perdure/perdure/internal/faultproxy"
	"github.com/perdure/perdure/internal/testpg"
)

// A fault is one thing that goes wrong around the programs. Strike returns when it is over, and
// whether it took effect.
type fault struct {
	name   string
	weight int
	strike func(ctx context.Context, s *supervisor, rng *rand.Rand) (bool, error)
}

// faults returns the faults that can strike this store.
func (s *supervisor) faults() []fault {
	all := []fault{
		{"kill", 8, killNode}, {"pause", 3, pauseNode}, {"stop", 1, stopNode},
		{"burn", 2, burnCores},
	}
	if s.isSQLite() {
		return append(all, fault{"lock", 2, holdLock}, fault{"full", 2, fullDisk})
	}
	all = append(all, fault{"terminate", 2, terminateBackends})
	if s.server == nil {
		return all
	}
	return append(all, fault{"cut", 2, cutLines}, fault{"stall", 2, stallLines},
		fault{"blackhole", 1, blackhole}, fault{"refuse", 1, refuse},
		fault{"server kill", 1, killServer}, fault{"server stop", 1, stopServer})
}

// torment strikes until ctx ends.
func (s *supervisor) torment(ctx context.Context, rng *rand.Rand) {
	all := s.faults()
	sum := 0
	for _, f := range all {
		sum += f.weight
	}
	for nap(ctx, time.Duration(50+rng.IntN(900))*time.Millisecond) {
		k := rng.IntN(sum)
		for _, f := range all {
			if k -= f.weight; k >= 0 {
				continue
			}
			took, err := f.strike(ctx, s, rng)
			if err != nil {
				s.blame("fault %s: %v", f.name, err)
			}
			s.struck(f.name, took)
			break
		}
	}
}

// nap waits, and reports whether ctx goes on.
func nap(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (s *supervisor) anyNode(rng *rand.Rand) *node { return s.nodes[rng.IntN(len(s.nodes))] }

// killNode kills a process at any moment.
func killNode(_ context.Context, s *supervisor, rng *rand.Rand) (bool, error) {
	n := s.anyNode(rng)
	_, gone := n.process()
	if err := n.signal(os.Kill, true); err != nil {
		return false, nil // it has ended already
	}
	<-gone
	return true, nil
}

// stopNode makes a process leave in good order.
func stopNode(_ context.Context, s *supervisor, rng *rand.Rand) (bool, error) {
	n := s.anyNode(rng)
	_, gone := n.process()
	if err := n.signal(syscall.SIGTERM, true); err != nil {
		return false, nil
	}
	select {
	case <-gone:
		return true, nil
	case <-time.After(40 * time.Second):
		_ = n.signal(syscall.SIGQUIT, true)
		<-gone
		return true, fmt.Errorf("%s does not leave", n.name)
	}
}

// pauseNode stops a process, mostly for longer than its lease, and lets it go on.
func pauseNode(ctx context.Context, s *supervisor, rng *rand.Rand) (bool, error) {
	n := s.anyNode(rng)
	p, gone := n.process()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return false, nil
	}
	for range 200 {
		select {
		case <-gone:
			return false, nil
		default:
		}
		if state(p.Pid) == 'T' {
			nap(ctx, time.Duration(200+rng.IntN(2*int(lease/time.Millisecond)))*time.Millisecond)
			return true, p.Signal(syscall.SIGCONT)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false, p.Signal(syscall.SIGCONT)
}

// state returns the state of a process: T if it is stopped, and also if the system does not report
// it.
func state(pid int) byte {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 'T'
	}
	for i := len(data) - 1; i > 0; i-- {
		if data[i] == ')' && i+2 < len(data) {
			return data[i+2]
		}
	}
	return 'T'
}

// burnCores makes other processes keep every core busy.
func burnCores(ctx context.Context, _ *supervisor, rng *rand.Rand) (bool, error) {
	for range 3 {
		cmd, err := command("burner")
		if err != nil {
			return false, err
		}
		if err := cmd.Start(); err != nil {
			return false, err
		}
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	}
	nap(ctx, time.Duration(500+rng.IntN(2000))*time.Millisecond)
	return true, nil
}

// holdLock holds SQLite's lock for writing.
func holdLock(ctx context.Context, s *supervisor, rng *rand.Rand) (bool, error) {
	c, err := s.db.Conn(context.Background())
	if err != nil {
		return false, err
	}
	defer c.Close()
	if _, err := c.ExecContext(context.Background(), `begin immediate`); err != nil {
		return false, nil // somebody else holds it
	}
	nap(ctx, time.Duration(50+rng.IntN(1000))*time.Millisecond)
	_, err = c.ExecContext(context.Background(), `rollback`)
	return true, err
}

// terminateBackends ends every session of the nodes.
func terminateBackends(_ context.Context, s *supervisor, _ *rand.Rand) (bool, error) {
	var n int
	err := s.db.QueryRow(
		`select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`).
		Scan(&n)
	return n > 0, err
}

// felt strikes by the proxy, and reports whether a byte was affected.
func felt(ctx context.Context, s *supervisor, rng *rand.Rand, strike func(*faultproxy.Proxy)) (bool,
	error) {
	before := s.proxy.Hits()
	strike(s.proxy)
	nap(ctx, time.Duration(100+rng.IntN(3000))*time.Millisecond)
	s.proxy.Heal()
	return s.proxy.Hits() > before, nil
}

func cutLines(ctx context.Context, s *supervisor, rng *rand.Rand) (bool, error) {
	return felt(ctx, s, rng, func(p *faultproxy.Proxy) {
		p.CutAfter(faultproxy.Way(rng.IntN(2)), int64(rng.IntN(2000)))
	})
}

func stallLines(ctx context.Context, s *supervisor, rng *rand.Rand) (bool, error) {
	return felt(ctx, s, rng, func(p *faultproxy.Proxy) { p.Stall(faultproxy.Way(rng.IntN(2))) })
}

func blackhole(ctx context.Context, s *supervisor, rng *rand.Rand) (bool, error) {
	return felt(ctx, s, rng, (*faultproxy.Proxy).Blackhole)
}

func refuse(ctx context.Context, s *supervisor, rng *rand.Rand) (bool, error) {
	return felt(ctx, s, rng, func(p *faultproxy.Proxy) {
		p.Refuse()
		p.Cut()
	})
}

func killServer(_ context.Context, s *supervisor, _ *rand.Rand) (bool, error) {
	s.server.Kill()
	s.server.Restart()
	return true, nil
}

func stopServer(_ context.Context, s *supervisor, _ *rand.Rand) (bool, error) {
	s.server.Stop(testpg.Immediate)
	s.server.Restart()
	return true, nil
}
