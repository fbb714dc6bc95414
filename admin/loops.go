package admin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/rules"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Loop is a loop of an engine: what the engine does again and again beside the runs.
type Loop struct {
	Engine journal.EngineID
	Name   string
	Last   time.Time     // its latest turn; if it has stopped, when that was
	Every  time.Duration // at most between two turns; 0 if it waits for news
	// Hangs is set if it should have had a turn: its program has to be restarted.
	Hangs   bool
	Stopped bool
	Reason  string // why it has stopped
	// MayStart is set if [Client.StartLoop] begins it again. Otherwise a restart of its program
	// does.
	MayStart bool
}

// Loops returns the loops of all engines that have the store. Of an engine that is not here it
// knows what the engine's last renewal said.
func (a *Client) Loops(ctx context.Context) ([]Loop, error) {
	info, err := kernel.Counts(ctx, a.client.FrontEnd)
	if err != nil {
		return nil, err
	}
	return a.loopsOf(info, a.client.FrontEnd.Now()), nil
}

// loopsOf returns the loops of the engines of a store, at a time by the clock of this process.
func (a *Client) loopsOf(info store.Info, now time.Time) (all []Loop) {
	var here journal.EngineID
	var own []kernel.Loop
	if a.client.Live != nil {
		here, own = a.client.Live.Loops()
	}
	for _, e := range info.Engines {
		if e.Expired {
			continue
		}
		turns, old := own, time.Duration(0)
		if e.ID != here {
			turns, old = nil, silence(info, e, now)
			for _, l := range e.Loops {
				turns = append(turns, kernel.Loop{Loop: l})
			}
		}
		all = append(all, loopsOfEngine(e.ID, info.Settings, turns, now, old)...)
	}
	return all
}

// loopsOfEngine returns the loops of an engine that said some time ago when they had their latest
// turns. A stop that the settings have is newer than that.
func loopsOfEngine(engine journal.EngineID, settings []store.Setting, turns []kernel.Loop,
	now time.Time, old time.Duration) (all []Loop) {
	stopped := map[string]bool{}
	for _, s := range settings {
		name, is := strings.CutPrefix(s.Name, rules.Loop(int64(engine), ""))
		if s.Kind == rules.LoopSetting && s.Value != nil && is {
			stopped[name] = true
			all = append(all, Loop{
				Engine: engine, Name: name, Last: s.At, Stopped: true, Reason: s.Reason,
				MayStart: true,
			})
		}
	}
	for _, l := range turns {
		if !stopped[l.Name] {
			all = append(all, Loop{
				Engine: engine, Name: l.Name, Every: l.Every, Last: now.Add(-old - l.Age),
				Hangs: hangs(l, old), Stopped: l.Stopped != "", Reason: l.Stopped,
			})
		}
	}
	return all
}

// silence returns how long ago an engine was heard of.
func silence(info store.Info, e store.Engine, now time.Time) time.Duration {
	if !info.Now.IsZero() {
		now = info.Now
	}
	return max(now.Sub(e.Seen), 0)
}

// hangs reports whether a loop has had no turn for too long, as the engine said some time ago. If
// the loop that says all this hangs, nothing was said since.
func hangs(l kernel.Loop, old time.Duration) bool {
	late := l.Age
	if l.Name == kernel.LoopRenewal {
		late += old
	}
	return l.Stopped == "" && l.Every > 0 && late > 3*l.Every+time.Minute
}

// StartLoop lets an engine begin a loop again that has stopped, soon. [Client.Loops] and the check
// "loops" of [Client.Doctor] name the stopped ones. If the loop has not stopped, the error has the
// code not_found.
func (a *Client) StartLoop(ctx context.Context, engine journal.EngineID, loop string,
	by Note) error {
	op := fmt.Sprintf("start loop %s of engine %d", failure.Quoted(loop), engine)
	if err := a.client.Outside(ctx, op); err != nil {
		return err
	}
	if err := by.check(op); err != nil {
		return err
	}
	set, err := kernel.Settings(ctx, a.client.FrontEnd, rules.LoopSetting)
	if err != nil {
		return err
	}
	for _, s := range set {
		if s.Name == rules.Loop(int64(engine), loop) {
			return a.set(ctx, op, rules.LoopSetting, s.Name, nil, by)
		}
	}
	return &journal.Error{
		Code: journal.CodeNotFound, Op: op, Message: "no such loop has stopped",
		Hint: "the check loops of the doctor names the loops that have stopped",
	}
}
