package observe

// A Load shows how much an engine has to do at a moment. See perdure.Engine.Load.
type Load struct {
	Runs  map[string]int // its runs in memory, by their patterns; those of its own do not count
	Queue int            // runs and calls whose changes wait for the commit before them
}
