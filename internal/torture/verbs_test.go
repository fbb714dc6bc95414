//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/torture/program"
)

const module = "github.com/perdure/perdure"

// listed is the output of go list for a package.
type listed struct {
	Dir, ImportPath, Export string
	GoFiles                 []string
}

// A source reads packages with their types.
type source struct {
	fset     *token.FileSet
	packages map[string]listed
	importer types.Importer
}

func newSource(t *testing.T) *source {
	t.Helper()
	out, err := exec.Command("go", "list", "-export", "-deps",
		"-json=Dir,ImportPath,Export,GoFiles", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	s := &source{fset: token.NewFileSet(), packages: map[string]listed{}}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		s.packages[p.ImportPath] = p
	}
	s.importer = importer.ForCompiler(s.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(s.packages[path].Export)
	})
	return s
}

// uses adds the names of other packages that the code of a package uses.
func (s *source) uses(t *testing.T, path string, used map[string]bool) {
	t.Helper()
	p := s.packages[path]
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(s.fset, filepath.Join(p.Dir, name), nil,
			parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	if _, err := (&types.Config{Importer: s.importer}).Check(path, s.fset, files,
		info); err != nil {
		t.Fatal(err)
	}
	for _, o := range info.Uses {
		used[nameOf(o)] = true
	}
}

// nameOf returns the name of a function or method, with that of its package.
func nameOf(o types.Object) string {
	f, ok := o.(*types.Func)
	if !ok || f.Pkg() == nil {
		return ""
	}
	name := f.Pkg().Name() + "."
	if recv := f.Origin().Signature().Recv(); recv != nil {
		typ := recv.Type()
		if p, ok := typ.(*types.Pointer); ok {
			typ = p.Elem()
		}
		named, ok := typ.(*types.Named)
		if !ok {
			return ""
		}
		name += named.Obj().Name() + "."
	}
	return name + f.Name()
}

// verbs returns the exported functions and methods of a package.
func (s *source) verbs(t *testing.T, path string) (out []string) {
	t.Helper()
	pkg, err := s.importer.Import(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range pkg.Scope().Names() {
		o := pkg.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		switch o := o.(type) {
		case *types.Func:
			out = append(out, nameOf(o))
		case *types.TypeName:
			named, ok := o.Type().(*types.Named)
			if !ok || o.IsAlias() || types.IsInterface(named) {
				continue
			}
			for m := range named.Methods() {
				if m.Exported() {
					out = append(out, nameOf(m))
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// none are the exported functions and methods that are not verbs of programs, each behind its
// purpose. A function that a program could call belongs in a program instead.
var none = map[string]string{
	"names and values of Go": "perdure.*.Error perdure.*.Unwrap perdure.*.Unwrap " +
		"perdure.*.String pattern.Kind.String definition.Issue.String pattern.Encode " +
		"pattern.CheckName dag.ChildResult.MarshalJSON dag.ChildResult.UnmarshalJSON",
	"what is checked at registration": "perdure.*.ApplyTo* backpressure.*.ApplyTo* " +
		"limit.*.ApplyTo* limit.Rank.IsZero schedule.At.ApplyTo* perdure.Check " +
		"perdure.Retry.Check " +
		"pattern.If.Check perdure.*.Validate " +
		"pattern.Arguments.Check pattern.Callbacks.* backpressure.*.Validate backpressure.Check " +
		"backpressure.Register backpressure.Reset backpressure.Names backpressure.Config.Policy " +
		"admin.Order.Validate admin.Note.Validate admin.Client.Keys admin.Client.RotateKey " +
		"admin.Client.RevokeKey " +
		"limit.Bounds.Sealed limit.BoundsOf schedule.Spec.*JSON",
	"what patterns are made of": "perdure.Future.Operation perdure.Client.Sealed " +
		"pattern.*.ApplyTo* pattern.*.Error pattern.*.Unwrap pattern.Calls.* " +
		"pattern.ExecutionEvents.* pattern.If.Holds pattern.Arguments.Fill backpressure.Limit.* " +
		"backpressure.Adaptive.* backpressure.Batched.* backpressure.CircuitBreaker.* " +
		"backpressure.*.Error perdure.Retry.* perdure.Phase.Of perdure.PublisherFunc.Publish " +
		"pattern.RollsBack pattern.Task.Skipped pattern.MayCleanUp pattern.Visit.* " +
		"pattern.Visited.* pattern.Before pattern.NextAttempt pattern.ShouldYield " +
		"pattern.Rollback.* pattern.ParkUndo pattern.RetryWithin pattern.Unversioned " +
		"pattern.CancelWaiting pattern.FirstVersion pattern.BeginUndo backpressure.Begin",
	"what is read of an ask": "approval.State.RolesAt approval.Receipt.String " +
		"approval.Cursor.* approval.ParseCursor approval.Pending.Cursor update.Update.Name",
	"the same client with other options": "perdure.Options.NewClient",
	"what typed verbs that are played do, by name and bytes": "perdure.Client.StartAll " +
		"perdure.Client.SendAll",
	"what is read of an engine": "perdure.Engine.Workflows perdure.Engine.Load " +
		"perdure.Ended.Report perdure.Report.* perdure.ResultOf perdure.Status.*",
	"streams and lines": "stream.Stream.Name stream.Stream.Follow steplog.Keep.ApplyTo*",
	"definitions as data": "dag.Read dag.Handler dag.ChildOf dag.Graph.Graph " +
		"dag.Graph.Layers saga.Composition.Graph saga.NamedHandler machine.Machine.Diagram " +
		"machine.Document",
	"what is read of a result": "dag.Result.* dag.Step.Of dag.Step.ID saga.Result.* " +
		"saga.Composed.* saga.Step.Of saga.Step.AllOf saga.Step.ID saga.Saga.ResultOf " +
		"saga.Composition.ResultOf tcc.Result.* tcc.Participant.Of tcc.Participant.ID " +
		"tcc.Participant.In tcc.Member.Of machine.Visited",
	"a start that waits for the end": "perdure.Client.Execute dag.Graph.Execute " +
		"saga.Saga.Execute saga.Composition.Execute tcc.TCC.Execute tcc.Composition.Execute " +
		"perdure.Run.*",
	"errors, outcomes and notices": "orchestrator.*.Error orchestrator.*.Unwrap " +
		"orchestrator.*.Rejects orchestrator.Counter.* orchestrator.Reference.* orchestrator.To",
	"memories, which have a suite and crash tests of their own": "orchestrator.Orchestrator.* " +
		"orchestrator.Local.* orchestrator.Insist orchestrator.Deleting.* " +
		"orchestrator.Archiving.* orchestrator.Retaining.* orchestrator.Record.* " +
		"orchestrator.Stateless.On orchestrator.Chart.*",
	"what turns are made of": "orchestrator.Turn.Begin orchestrator.Turn.Emit " +
		"orchestrator.Durable.Children",
	"brokers, which have a suite of their own, and what is around them": "bus.Local.* " +
		"bus.Consumer.Run bus.Encode bus.Decode bus.Done bus.Field bus.FromRun bus.Letters.* " +
		"bus.Lifecycle bus.Outbound.* bus.Reject bus.Relay bus.Router.Handle " +
		"bus.Gateway.Adopt bus.Rejects bus.Gateway.Counts bus.Gateway.Handles " +
		"bus.Gateway.Registrations bus.Gateway.Signal " +
		"bus.Gateway.Starts bus.Changes.ApplyTo*",
	"what answers questions":          "dag.Graph.Query dag.Graph.Answer",
	"functions made of functions":     "pattern.NoResult",
	"what has no end":                 "schedule.Declare",
	"housekeeping of the application": "barrier.Clean",
}

// isNone reports whether a name is listed as one that is no verb.
func isNone(name string) bool {
	for _, list := range none {
		for _, pattern := range strings.Fields(list) {
			if ok, _ := filepath.Match(pattern, name); ok {
				return true
			}
		}
	}
	return false
}

// Every exported function and method of the packages that programs are written with is in the code
// that plays them, or in the list of those that are not verbs.
func TestEveryVerbIsPlayed(t *testing.T) {
	s := newSource(t)
	used := map[string]bool{}
	for path := range s.packages {
		if strings.HasPrefix(path, module+"/internal/torture") {
			s.uses(t, path, used)
		}
	}
	for _, path := range []string{
		module, module + "/dag", module + "/saga", module + "/tcc", module + "/barrier", module +
			"/backpressure", module + "/pattern", module + "/admin", module + "/limit",
		module + "/schedule", module + "/batch", module + "/alert", module + "/callback",
		module + "/update", module + "/approval", module + "/stream", module + "/steplog",
		module + "/machine", module + "/orchestrator", module + "/bus",
	} {
		verbs := s.verbs(t, path)
		if len(verbs) < 5 {
			t.Fatalf("%s has only %v", path, verbs)
		}
		for _, verb := range verbs {
			switch {
			case used[verb] && isNone(verb) && !strings.Contains(verb, "Error"):
				continue
			case !used[verb] && !isNone(verb):
				t.Errorf("%s is in no program: play it, or say why it is no verb", verb)
			}
		}
	}
}

// The generator makes every kind of operation in each of its ways, every odd error, end,
// clean-up and act, and every declaration; and the oracle knows them.
func TestEveryWayIsGenerated(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(6000) {
		p := program.Generate(seed, program.Limits{Tx: true})
		want := program.Foresee(p, "p")
		if len(want.Ends) == 0 {
			t.Fatalf("seed %d has no end", seed)
		}
		seen["workflow "+p.Workflow], seen["clean "+p.Clean], seen["end "+p.End] = true, true, true
		seen["start "+p.Start], seen["stuck "+p.Stuck] = true, true
		for _, d := range p.Deeds {
			seen["confirm "+d.Confirm], seen["cancel "+d.Cancel] = true, true
			seen["last "+d.Last] = true
			for _, c := range d.Calls {
				seen["call "+c] = true
			}
		}
		for _, a := range p.Acts {
			seen["act "+a] = true
		}
		for _, o := range p.Then {
			seen["order "+o] = true
		}
		p.Body.All(func(o *program.Op) {
			seen[fmt.Sprint(o.Kind, " ", o.Way)], seen["odd "+o.Odd] = true, true
		})
		data, err := json.Marshal(p)
		var back program.Program
		if err == nil {
			err = json.Unmarshal(data, &back)
		}
		if again, _ := json.Marshal(back); err != nil || string(again) != string(data) {
			t.Fatalf("seed %d does not come back from JSON: %v", seed, err)
		}
	}
	want := []string{"workflow code", "clean ", "clean finally", "clean odd", "clean cancel"}
	for _, f := range program.Declarations {
		want = append(want, "workflow "+f.Name)
	}
	for kind, ways := range program.Ways {
		for _, way := range ways {
			want = append(want, fmt.Sprint(kind, " ", way))
		}
	}
	for prefix, list := range map[string][]string{
		"odd ":   program.Odds,
		"end ":   program.Ends,
		"start ": program.Starts,
		"act ":   program.Acts,
		"order ": program.Orders,
		"stuck ": program.Stucks,

		"confirm ": program.Decisions,
		"cancel ":  program.Decisions,
		"call ":    program.Calls,
		"last ":    program.Lasts,
	} {
		for _, what := range list {
			want = append(want, prefix+what)
		}
	}
	for _, w := range want {
		if !seen[w] {
			t.Errorf("no program of 6,000 has %s", w)
		}
	}
}
