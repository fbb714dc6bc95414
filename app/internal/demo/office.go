package demo

// An office sends what is written, prints what is to be stuck on parcels, and
// bills who subscribes. It never refuses.
type office struct{}

func (office) do(c Call) (any, string) { return reference(c) + "-" + c.Of, "" }

func (office) left(Call) int64 { return 0 }

// nobody is the service that does what nobody else does.
type nobody struct{}

func (nobody) do(c Call) (any, string) { return nil, "nobody does that" }

func (nobody) left(Call) int64 { return 0 }
