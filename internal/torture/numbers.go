//go:build unix

package main

import (
	"fmt"
	"os"
	"strings"
)

// struck counts a fault, and whether it took effect.
func (s *supervisor) struck(name string, took bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.report.Faults[name]
	if f == nil {
		f = &strikes{}
		s.report.Faults[name] = f
	}
	f.Struck++
	if took {
		f.Took++
	}
}

// took returns how often each fault took effect.
func (s *supervisor) took() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]int{}
	for name, f := range s.report.Faults {
		out[name] = f.Took
	}
	return out
}

// count adds the numbers of a round.
func (s *supervisor) count(r *round, calls, repeated int) {
	s.report.Programs += len(r.cases)
	s.report.Runs += len(r.runs)
	for _, run := range r.runs {
		s.report.Entries += len(run.Entries)
	}
	s.report.Calls += calls
	s.report.Repeated += repeated
	if path, ok := strings.CutPrefix(s.Store, "sqlite:"); ok {
		if info, err := os.Stat(path + "-wal"); err == nil {
			s.report.WAL = max(s.report.WAL, info.Size())
		}
	}
	for _, n := range s.nodes {
		p, _ := n.process()
		s.report.Memory = max(s.report.Memory, resident(p.Pid))
	}
	if s.report.WAL > 256<<20 {
		r.wrong = append(r.wrong, fmt.Sprintf("the log has %d bytes", s.report.WAL))
	}
	if s.report.Memory > 1<<30 {
		r.wrong = append(r.wrong, fmt.Sprintf("a node has %d bytes", s.report.Memory))
	}
}

// resident returns the memory of a process; 0 if the system does not report it.
func resident(pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var size, pages int64
	_, _ = fmt.Sscan(string(data), &size, &pages)
	return pages * int64(os.Getpagesize())
}
