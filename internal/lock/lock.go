// Package lock has a mutex for slow operations: a call of a store, or the wait for another process.
// In a bubble of [testing/synctest], virtual time passes while a goroutine waits for it, and stands
// still while one waits for a [sync.Mutex]: if the holder of that sleeps, everybody waits for ever.
package lock

// A Lock is a mutex. [New] makes one.
type Lock chan struct{}

// New returns an unlocked mutex.
func New() Lock { return make(Lock, 1) }

// Lock waits until the mutex is unlocked, and locks it.
func (l Lock) Lock() { l <- struct{}{} }

// LockOr is Lock until one of these channels is closed; then it returns false.
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

// TryLock locks the mutex if it is unlocked, and reports whether it did.
func (l Lock) TryLock() bool {
	select {
	case l <- struct{}{}:
		return true
	default:
		return false
	}
}

// Unlock unlocks the mutex. The caller holds it.
func (l Lock) Unlock() { <-l }
