package kernel

import "time"

// An alarm is a timer that may be set.
type alarm struct{ timer *time.Timer }

// set has f called after a while. It replaces what was set before.
func (a *alarm) set(after time.Duration, f func()) { a.timer = time.AfterFunc(after, f) }

// stop ends it, if it is set.
func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}
