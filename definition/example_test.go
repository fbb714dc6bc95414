package definition_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/memory"
)

// An order reserves and scores at the same time, charges when both are done, and then ships.
var orderGraph = definition.Graph{Nodes: []definition.Node{
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

// Check returns all issues at once.
func ExampleGraph_Check() {
	for _, issue := range (definition.Graph{Nodes: []definition.Node{
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

// A contradictory definition is refused with all its errors.
func ExampleError() {
	def := perdure.Define("order", func(ctx context.Context, _ int) (int, error) { return 0, nil },
		perdure.About{
			Graph: &definition.Graph{
				Nodes: []definition.Node{{Name: "charge", After: []string{"reserve", "charge"}}},
			},
		})
	engine, err := perdure.New(memory.New(), perdure.Options{})
	if err != nil {
		log.Fatal(err)
	}
	err = engine.Register(def)
	var refused *definition.Error
	if errors.As(err, &refused) {
		for _, issue := range refused.Issues {
			fmt.Println(issue.Severity == definition.SeverityError, issue.Where, issue.Message)
		}
	}
	fmt.Println(errors.Is(err, &perdure.Error{Code: journal.CodeTopology}))
	// Output:
	// true charge it follows "reserve", which is not there
	// true charge it follows itself
	// true
}

func ExampleIssue_String() {
	fmt.Println(definition.Issue{
		Severity: definition.SeverityWarning, Where: "charge.retry",
		Message: "41 hours between attempts",
	}.String())
	// Output: WARNING: charge.retry: 41 hours between attempts
}
