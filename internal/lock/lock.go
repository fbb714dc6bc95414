// Package lock has a mutex that is held while something slow happens: a call of a store,
// or the wait for another process. In a bubble of [testing/synctest], virtual time passes
// while a goroutine waits for it, and stands still while one waits for a [sync.Mutex]:
// where who has it sleeps, everybody would wait for ever.
package lock

// A Lock is a mutex. [New] makes one.
type Lock chan struct{}

// New gives one that nobody holds.
func New() Lock { return make(Lock, 1) }

// Lock waits until nobody holds it, and takes it.
func (l Lock) Lock() { l <- struct{}{} }

// LockOr is Lock until one of these is closed; then it returns false.
func (l Lock) LockOr(over, dead <-chan struct{}) bool {
	select {
	case l <- struct{}{}:
		return true
	case <-over:
		return false
	case <-dead:
		return false
	}
}

// TryLock takes it where nobody holds it, and says whether it did.
func (l Lock) TryLock() bool {
	select {
	case l <- struct{}{}:
		return true
	default:
		return false
	}
}

// Unlock lets it go. Who calls it holds it.
func (l Lock) Unlock() { <-l }
