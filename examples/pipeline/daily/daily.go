// Package daily has the workflow of a daily report: a graph that reads three files side by
// side, joins them, and writes the report.
package daily

import (
	"context"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dag"
)

// Units has the number of pieces of each item.
type Units map[string]int

// An Archive has a file of units for each day and name, and takes the report of a day.
type Archive interface {
	Read(ctx context.Context, name, day string) (Units, error)
	Write(ctx context.Context, day string, left Units) error
}

// Report returns the graph. Its input is the day.
func Report(archive Archive) *dag.Graph[string] {
	g := dag.New[string]("daily-report", perdure.Retry{Attempts: 2, First: 100 * time.Millisecond})
	var sources []dag.Dependency
	for _, name := range []string{"sales", "returns", "stock"} {
		read := func(ctx context.Context, day string) (Units, error) {
			return archive.Read(ctx, name, day)
		}
		sources = append(sources, dag.Add(g, "read-"+name, read))
	}
	joined := dag.Add(g, "join", join).After(sources...)
	dag.Add(g, "write", func(ctx context.Context, in report) (string, error) {
		return in.Day, archive.Write(ctx, in.Day, in.Left)
	}).After(joined)
	return g.Output(joined)
}

// files are the input of join: the results of the steps before it.
type files struct {
	Sales   Units `perdure:"step=read-sales,required"`
	Returns Units `perdure:"step=read-returns,required"`
	Stock   Units `perdure:"step=read-stock,required"`
}

func join(_ context.Context, in files) (Units, error) {
	left := Units{}
	for item, n := range in.Stock {
		left[item] = n - in.Sales[item] + in.Returns[item]
	}
	return left, nil
}

// report is the input of the last step.
type report struct {
	Day  string `perdure:"input"`
	Left Units  `perdure:"step=join,required"`
}
