package store

// Abilities are the optional parts of a store. Each is nil if the store does not have it.
type Abilities struct {
	Watcher    Watcher
	Parallel   Parallel
	Briefer    Briefer
	Counter    Counter
	SlotReader SlotReader
	Transactor Transactor
}

// A Decorator is a store around another store. Its abilities depend on those of the store below, so
// it lists them itself: what it does not list, it does not have.
type Decorator interface {
	// Abilities returns the optional parts of the store. It does not call the database.
	Abilities() Abilities
}

// AbilitiesOf returns the optional parts of a store: those that a [Decorator] lists, and of any
// other store the interfaces that it implements.
func AbilitiesOf(s Store) (a Abilities) {
	if d, ok := s.(Decorator); ok {
		return d.Abilities()
	}
	a.Watcher, _ = s.(Watcher)
	a.Parallel, _ = s.(Parallel)
	a.Briefer, _ = s.(Briefer)
	a.Counter, _ = s.(Counter)
	a.SlotReader, _ = s.(SlotReader)
	a.Transactor, _ = s.(Transactor)
	return a
}
