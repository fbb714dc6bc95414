package orchestrator

// A Metadata describes an instance to its [Memory].
type Metadata struct {
	Subject   string
	Parent    Reference // the subject of the instance that has started this one
	Initiator Reference // who has sent the first event
	Source    string    // the orchestrator
}

// A Reference is a name that may be unknown, or known to be none. The zero value is [Pending].
type Reference struct {
	name  string
	known bool
}

// Pending is a reference that is not known yet.
var Pending = Reference{}

// None is a reference that is known to be none.
var None = Reference{known: true}

// To returns a reference to a name. An empty name is [None].
func To(name string) Reference { return Reference{name, true} }

// Name returns the name. known is false as long as the reference is pending.
func (r Reference) Name() (name string, known bool) { return r.name, r.known }

// String returns the name, "none" or "pending".
func (r Reference) String() string {
	switch {
	case !r.known:
		return "pending"
	case r.name == "":
		return "none"
	}
	return r.name
}
