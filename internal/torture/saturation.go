//go:build unix

package main

import (
	"time"

	"github.com/perdure/perdure/internal/torture/program"
)

// A saturation is the set of pairs that were seen: an operation in a way, and a fault that struck
// at the same time. A torture has seen enough when the set no longer grows.
type saturation struct {
	all   map[[2]string]bool
	late  time.Time // the begin of the last third
	fresh int       // pairs first seen in it
}

func newSaturation(began, until time.Time) *saturation {
	return &saturation{all: map[[2]string]bool{}, late: until.Add(-until.Sub(began) / 3)}
}

func (s *saturation) add(programs []*program.Program, faults []string) {
	for _, p := range programs {
		for _, fault := range faults {
			s.see(p.Workflow, fault)
			p.Body.All(func(o *program.Op) { s.see(string(o.Kind)+"/"+o.Way+"/"+o.Odd, fault) })
			for _, act := range p.Acts {
				s.see("act "+act, fault)
			}
		}
	}
}

func (s *saturation) see(what, fault string) {
	pair := [2]string{what, fault}
	if !s.all[pair] && time.Now().After(s.late) {
		s.fresh++
	}
	s.all[pair] = true
}
