package program

import "slices"

// isBad reports whether a step of the declaration fails for good, and so fails its run.
func (p *Program) isBad() bool {
	d, _ := DeclarationOf(p.Workflow)
	for i := range p.Deeds {
		if p.Deeds[i].Bad && d.Steps[i].Way != "optional" {
			return true
		}
	}
	return false
}

// Forks reports whether runs of the declaration are forked. Children begin again with a fork, under
// keys of their own, and are left out.
func (d Declaration) Forks() bool {
	if d.Pattern != "graph" && d.Pattern != "saga" && d.Pattern != "tcc" || d.IsAgain() {
		return false
	}
	return !d.NeedsTx() && !slices.ContainsFunc(d.Steps, func(n Node) bool {
		return slices.Contains(settled, n.Way) && n.Way != "branch" || n.Way == "signal"
	})
}

// isTCC reports whether the declaration confirms or cancels.
func (d Declaration) isTCC() bool { return d.Pattern == "tcc" || d.Pattern == "tccs" }

// IsTCC reports whether the program is of a declaration that confirms or cancels.
func (p *Program) IsTCC() bool {
	d, _ := DeclarationOf(p.Workflow)
	return d.isTCC()
}

// then makes the orders of operators on a declaration that has ended. The compensations of such a
// declaration succeed, or stop a rollback until an operator goes on.
func (m *maker) then(p *Program) (out []string) {
	d, _ := DeclarationOf(p.Workflow)
	if p.IsCut() || m.IntN(2) == 0 {
		return nil
	}
	if d.IsMachine() {
		return p.order(d)
	}
	state := "done"
	if p.isBad() {
		state = "failed"
	}
	for range 1 + m.IntN(3) {
		next := d.orders(state)
		if len(next) == 0 {
			break
		}
		order := next[m.IntN(len(next))]
		out = append(out, order)
		state = map[string]string{
			"compensate": "undone", "fork-bad": "failed", "mended": "done",
		}[order]
		if order == "fork" {
			state = map[bool]string{true: "failed", false: "done"}[p.isBadAfter(out)]
		}
	}
	if len(out) > 0 {
		for i := range p.Deeds {
			p.Deeds[i].UndoBad = false
		}
		out = m.stick(p, d, out)
	}
	return out
}

// stick makes compensations fail, so that the rollbacks that operators order stop. Where a run may
// fail, nobody waits for its compensations. It returns the orders that are possible then.
func (m *maker) stick(p *Program, d Declaration, orders []string) []string {
	first := slices.Index(orders, "compensate")
	if first < 0 || p.isBad() || slices.Contains(orders, "fork-bad") || d.GivesUp() ||
		m.IntN(4) == 0 {
		return orders
	}
	sticks := false
	for i, n := range d.Steps {
		never := []string{"child", "each", "outputs", "optional", "when"}
		p.Deeds[i].UndoBroken = n.Undo && !slices.Contains(never, n.Way) && m.IntN(2) == 0
		sticks = sticks || p.Deeds[i].UndoBroken
	}
	if !sticks {
		return orders
	}
	if p.Stuck = Stucks[m.IntN(len(Stucks))]; p.Stuck == "skip" {
		return orders[:first+1]
	}
	return orders
}

// isBadAfter reports whether the run fails after those orders.
func (p *Program) isBadAfter(orders []string) bool {
	bad := p.isBad()
	for _, o := range orders {
		switch o {
		case "fork-bad":
			bad = true
		case "mended":
			bad = false
		}
	}
	return bad
}

// orders returns the orders that are possible for a run that is done, failed or undone.
func (d Declaration) orders(state string) []string {
	switch {
	case state == "failed" && d.Forks():
		return []string{"fork", "mended"}
	case d.isTCC():
		return nil
	case state == "done" && d.Forks():
		return []string{"compensate", "fork", "fork-bad"}
	case state == "done":
		return []string{"compensate"}
	case state == "undone" && d.Forks():
		return []string{"fork"}
	}
	return nil
}

// before reports whether step i comes before step k.
func (d Declaration) before(i, k int) bool {
	return slices.ContainsFunc(d.Steps[k].After, func(a int) bool {
		return a == i || d.before(i, a)
	})
}

// then foresees the orders of an operator on a run that has ended, in which those steps are done.
func (o *oracle) then(p *Program, d Declaration, done []int) {
	undone := func(holds func(i int) bool) {
		for _, i := range done {
			for _, w := range clones(d.Steps[i], "undo") {
				if d.Steps[i].Undo && holds(i) {
					o.must(Label(o.instance, i, o.round, w))
				}
			}
		}
	}
	for n, order := range p.Then {
		fork := -1
		if len(done) > 0 {
			fork = done[int(p.Seed+uint64(n))%len(done)]
		}
		o.Fork = append(o.Fork, fork)
		if order != "compensate" {
			o.mayAll(d)
		}
		switch {
		case order == "compensate":
			undone(func(i int) bool { return !p.Deeds[i].UndoBroken || p.IsMended() })
			for i := range p.Deeds {
				if p.Deeds[i].UndoBroken {
					o.Undos = append(o.Undos, Label(o.instance, i, o.round, "undo"))
				}
			}
			o.Ends = []string{"COMPENSATED"}
			if p.Stuck == "skip" {
				o.Ends = []string{"FAILED"}
			}
		case order == "fork-bad":
			undone(func(i int) bool { return d.before(i, fork) })
			o.Ends = []string{"FAILED"}
		case order == "fork" && !p.isBadAfter(p.Then[:n]):
			o.Ends = []string{"COMPLETED"}
		case order == "mended":
			done = o.mended(p, d)
		}
	}
}

// mended foresees a run whose steps all succeed. It returns the steps.
func (o *oracle) mended(p *Program, d Declaration) (done []int) {
	if d.isTCC() {
		mended := *p
		mended.Deeds = slices.Clone(p.Deeds)
		for i := range mended.Deeds {
			mended.Deeds[i].Bad = false
		}
		return o.tcc(&mended, d)
	}
	o.Ends = []string{"COMPLETED"}
	for i, n := range d.Steps {
		if n.Way == "when" {
			continue
		}
		done = append(done, i)
		if n.Way == "all" && len(o.Messages) == 0 {
			o.send(o.instance, "all", 1)
		}
		o.must(Label(o.instance, i, o.round, "do"))
	}
	return done
}

// Ordered returns the deeds of the program with which it goes on by the n-th order, and whether
// they are others than before.
func (p *Program) Ordered(n int, forks []int) (deeds []Deed, changed bool) {
	deeds = slices.Clone(p.Deeds)
	for k, order := range p.Then[:n+1] {
		changed = order == "mended" || order == "fork-bad"
		if order == "fork-bad" {
			deeds[forks[k]].Bad = true
		}
		for i := range deeds {
			deeds[i].Bad = deeds[i].Bad && order != "mended"
		}
	}
	return deeds, changed
}
