package telemetry

import (
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// MostLabels is the number of workflows that the metrics of executions tell apart, and the number
// of steps of workflows that the metrics of steps tell apart. What comes later counts under
// [Other].
const MostLabels = 500

// Other is the name of the workflow and of the step that stand for those that are not told apart.
const Other = "other"

// A pair is a workflow, and a pattern or a step of it.
type pair struct{ name, of string }

// A cell has the attributes of a pair, ready to be measured with.
type cell struct{ plain, success, failure metric.MeasurementOption }

// labels has the cells of metrics, and bounds how many there are.
type labels struct {
	of    attribute.Key // what the second part of a pair is
	mu    sync.Mutex
	cells map[pair]cell
}

// cell returns the cell of a pair, or that of Other if there are too many.
func (l *labels) cell(name, of string) cell {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := pair{name, of}
	c, ok := l.cells[p]
	if !ok && len(l.cells) >= MostLabels {
		p = pair{Other, Other}
		c, ok = l.cells[p]
	}
	if !ok {
		c = l.newCell(p)
		if l.cells == nil {
			l.cells = map[pair]cell{}
		}
		l.cells[p] = c
	}
	return c
}

func (l *labels) newCell(p pair) cell {
	all := []attribute.KeyValue{attribute.String("name", p.name)}
	if l.of != "" {
		all = append(all, l.of.String(p.of))
	}
	all = all[:len(all):len(all)]
	with := func(more ...attribute.KeyValue) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(append(all, more...)...))
	}
	return cell{
		plain: with(), success: with(attribute.Bool("success", true)),
		failure: with(attribute.Bool("success", false)),
	}
}

// ended returns the attributes of something that has ended.
func (c *cell) ended(success bool) metric.MeasurementOption {
	if success {
		return c.success
	}
	return c.failure
}

// stepOf returns the label of the path of a step: without keys and occurrences, of which there is
// no end. So the label of order/ship[4711]#2 is order/ship.
func stepOf(path string) string {
	if !strings.ContainsAny(path, "[#") {
		return path
	}
	var b strings.Builder
	var until rune // the bracket that ends the part to skip; zero outside such a part
	for _, c := range path {
		switch {
		case c == '[':
			until = ']'
		case c == '#':
			until = '/'
		case c == until && c == ']':
			until = 0
		case c == until || until == 0:
			until = 0
			b.WriteRune(c)
		}
	}
	return b.String()
}
