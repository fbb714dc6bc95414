package admin

import (
	"context"
	"slices"
	"strings"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Marker is a decision of [perdure.Version] that open runs have recorded.
type Marker struct {
	Change  string
	Version int
	Runs    []journal.RunID // the runs that need it, newest first
}

// Versions returns the markers that open runs of a workflow need, sorted by change and version. An
// empty name means all workflows. The code of a change need not be kept if no marker names the
// change, or if markers name only its newest version. Versions reads the journals of all open runs;
// it reads a damaged journal up to the damage.
func (a *Client) Versions(ctx context.Context, workflow string) ([]Marker, error) {
	var out []Marker
	f := store.Filter{
		Open: true, Workflow: workflow, Without: kernel.OwnPrefix, Limit: store.MaxLimit,
	}
	for {
		heads, next, err := a.client.FrontEnd.Heads(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, h := range heads {
			entries, err := a.client.FrontEnd.Read(ctx, h, store.Range{})
			if err != nil && !failure.IsDamaged(err) {
				return nil, err
			}
			for _, e := range entries {
				if e.Kind == journal.VersionMarked {
					out = need(out, e.Op.Name, e.Detail.Version, h.ID)
				}
			}
		}
		if f.After = next; next.IsZero() {
			return out, nil
		}
	}
}

// need adds a run to a marker and keeps the order of the markers.
func need(all []Marker, change string, version int, run journal.RunID) []Marker {
	at, known := slices.BinarySearchFunc(all, Marker{Change: change, Version: version},
		func(a, b Marker) int {
			if n := strings.Compare(a.Change, b.Change); n != 0 {
				return n
			}
			return a.Version - b.Version
		})
	if !known {
		all = slices.Insert(all, at, Marker{Change: change, Version: version})
	}
	all[at].Runs = append(all[at].Runs, run)
	return all
}
