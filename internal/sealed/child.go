package sealed

// A Child has the options of the start of a child.
type Child struct {
	Operation Operation
	Start     Start
	Policy    string
	Variables bool // the child begins with the variables of its parent
}
