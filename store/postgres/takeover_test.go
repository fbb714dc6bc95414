package postgres_test

import (
	"testing"
	"time"
)

// TestRunsMoveWhenTheirNodeIsGone measures how long a run makes no progress when its node is
// stopped, killed, or suspended for longer than its lease.
//
// spec: B-5
func TestRunsMoveWhenTheirNodeIsGone(t *testing.T) {
	if testing.Short() {
		t.Skip("some leases have to pass")
	}
	c := newCluster(t, 2, 0, 1)
	_, err := c.client.Start(c.ctx, "beats", []byte("0"))
	c.must(err)
	for _, how := range []struct {
		name string
		end  func(p *process) error
	}{
		{"stopped", func(p *process) error { return p.in.Close() }},
		{"killed", func(p *process) error { return p.cmd.Process.Kill() }},
		{"held up", func(p *process) error { return stop(p.cmd.Process) }},
	} {
		var last, after int64
		if err := c.until(func() bool { return c.beats(0) > after+20 }); err != nil {
			t.Fatalf("%v: %d beats\n%s", err, c.beats(0), c.logs())
		}
		after = c.beats(0)
		p := c.executes(after)
		c.must(how.end(p))
		c.must(c.until(func() bool {
			last = c.beats(p.cmd.Process.Pid)
			return c.beats(0) > last+5
		}))
		var still float64
		c.must(
			c.bank.QueryRow(
				c.ctx,
				`select extract(epoch from (select at from beats where number = (select min(number) from beats where number > $1)) - at)
			from beats where number = $1`, last).Scan(&still))
		t.Logf("its node %s, with a lease of %v, a run stood still for %v", how.name, chaosLease,
			time.Duration(still*float64(time.Second)).Round(time.Millisecond))
		if how.name == "held up" {
			c.must(goOn(p.cmd.Process))
			continue
		}
		_ = p.cmd.Wait()
		c.begin(p)
	}
}

// beats returns the number of the last beat of a process, or of all processes if process is
// 0.
func (c *cluster) beats(process int) int64 {
	var n int64
	c.must(c.bank.QueryRow(c.ctx, "select coalesce(max(number), 0) from beats where $1 in (0, "+
		"process)", process).Scan(&n))
	return n
}

// executes returns the node that wrote a beat.
func (c *cluster) executes(beat int64) *process {
	var pid int
	c.must(c.bank.QueryRow(c.ctx, "select process from beats where number = $1", beat).Scan(&pid))
	for _, p := range c.nodes {
		if p.cmd.Process.Pid == pid {
			return p
		}
	}
	c.Fatalf("process %d is no node", pid)
	return nil
}
