package observe

// A Load shows how much an engine has to do at a moment. See perdure.Engine.Load.
type Load struct {
	Runs  map[string]int // the runs that it has in memory, by their patterns
	Queue int            // runs and calls whose changes wait for the commit before them
}
