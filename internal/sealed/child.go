package sealed

// A Child is how a child is started.
type Child struct {
	Operation Operation
	Start     Start
	Policy    string
}
