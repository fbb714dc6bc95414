package perdure_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store/memory"
)

// An order reserves and scores at once, charges when both are done, and then ships.
var orderGraph = perdure.Graph{Nodes: []perdure.Node{
	{Name: "ship", After: []string{"charge"}},
	{Name: "charge", After: []string{"reserve", "score"}},
	{Name: "reserve", Order: 2},
	{Name: "score", Order: 1},
}}

func ExampleGraph_Layers() {
	for n, layer := range orderGraph.Layers() {
		fmt.Println(n, layer)
	}
	// Output:
	// 0 [score reserve]
	// 1 [charge]
	// 2 [ship]
}

// Check tells everything at once.
func ExampleGraph_Check() {
	for _, issue := range (perdure.Graph{Nodes: []perdure.Node{
		{Name: "charge", After: []string{"ship"}},
		{Name: "reserve", After: []string{"charge", "charg"}},
		{Name: "ship", After: []string{"reserve"}},
	}}).Check() {
		fmt.Println(issue)
	}
	// Output:
	// ERROR: reserve: it follows "charg", which is not there
	// ERROR: charge: a circle: charge → reserve → ship → charge
}

func ExampleGraph_DOT() {
	fmt.Print(orderGraph.DOT("order"))
	// Output:
	// digraph "order" {
	// 	rankdir=LR
	// 	node [shape=box]
	// 	"ship"
	// 	"charge"
	// 	"reserve"
	// 	"score"
	// 	"charge" -> "ship"
	// 	"reserve" -> "charge"
	// 	"score" -> "charge"
	// }
}

func ExampleGraph_Mermaid() {
	fmt.Print(orderGraph.Mermaid())
	// Output:
	// flowchart LR
	//     n0["ship"]
	//     n1["charge"]
	//     n2["reserve"]
	//     n3["score"]
	//     n1 --> n0
	//     n2 --> n1
	//     n3 --> n1
}

// A pattern of one's own declares its steps, and tells what is odd about them: an
// engine refuses errors, and tells observers the rest.
func ExampleDeclared() {
	def := perdure.Define("order", func(ctx context.Context, _ int) (int, error) { return 0, nil }, perdure.PatternSaga,
		perdure.Declared(func() (perdure.About, []perdure.Issue) {
			return perdure.About{Graph: &orderGraph}, []perdure.Issue{
				{Severity: perdure.IssueWarning, Where: "charge", Message: "it has no compensation"},
				{Severity: perdure.IssueInfo, Where: "ship.retry", Message: "it has the default"},
			}
		}))
	see := observe.Observer{Kinds: []observe.Kind{observe.DefinitionAdvised}, See: func(n observe.Notice) { fmt.Println(n.Workflow, n.Reason) }}
	for _, strict := range []bool{false, true} {
		engine, err := perdure.New(memory.New(), perdure.Options{Observers: []observe.Observer{see}, FailOnWarning: strict})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(engine.Register(def))
		for _, w := range engine.Workflows() {
			fmt.Println(w.Name, w.Pattern, len(w.About.Graph.Nodes), "steps")
		}
	}
	// Output:
	// order WARNING: charge: it has no compensation
	// order INFO: ship.retry: it has the default
	// <nil>
	// order SAGA 4 steps
	// perdure: the definition of order has issues:
	// 	WARNING: charge: it has no compensation
	// 	INFO: ship.retry: it has the default
}

// A definition that contradicts itself is refused with everything that is wrong.
func ExampleDefinitionError() {
	def := perdure.Define("order", func(ctx context.Context, _ int) (int, error) { return 0, nil },
		perdure.About{Graph: &perdure.Graph{Nodes: []perdure.Node{{Name: "charge", After: []string{"reserve", "charge"}}}}})
	engine, err := perdure.New(memory.New(), perdure.Options{})
	if err != nil {
		log.Fatal(err)
	}
	err = engine.Register(def)
	var refused *perdure.DefinitionError
	if errors.As(err, &refused) {
		for _, issue := range refused.Issues {
			fmt.Println(issue.Severity == perdure.IssueError, issue.Where, issue.Message)
		}
	}
	fmt.Println(errors.Is(err, &perdure.Error{Code: journal.CodeTopology}))
	// Output:
	// true charge it follows "reserve", which is not there
	// true charge it follows itself
	// true
}

func ExampleIssue_String() {
	fmt.Println(perdure.Issue{Severity: perdure.IssueWarning, Where: "charge.retry", Message: "41 hours between attempts"}.String())
	// Output: WARNING: charge.retry: 41 hours between attempts
}

// The pattern of a definition is an option of it.
func ExamplePattern() {
	for _, p := range []perdure.Pattern{perdure.PatternWorkflow, perdure.PatternSaga, perdure.PatternTCC} {
		def := perdure.Define("order", func(ctx context.Context, _ int) (int, error) { return 0, nil }, p)
		engine, err := perdure.New(memory.New(), perdure.Options{})
		if err == nil {
			err = engine.Register(def)
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(engine.Workflows()[0].Pattern)
	}
	// Output:
	// WORKFLOW
	// SAGA
	// TCC
}

func ExamplePattern_String() {
	fmt.Println(perdure.PatternTCC.String())
	// Output: TCC
}
