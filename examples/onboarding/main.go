// Command onboarding takes on hundreds of colleagues by a machine, while its engine is killed again
// and again. In the end those who are hired have everything once, and the others have nothing.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/examples/internal/kill"
	"github.com/perdure/perdure/examples/internal/ledger"
	"github.com/perdure/perdure/examples/onboarding/staff"
)

func main() { kill.Main(300, work, judge) }

// A fate is the end that an onboarding is to have. The name of a colleague begins with it.
type fate struct {
	name         string
	end          perdure.RunStatus
	given, taken string // sorted
	decided      string // what the journal has; empty if nobody is asked
	within       time.Duration
	decision     approval.Decision
}

const most, less = "access account laptop mail", "access account mail"

var fates = []fate{
	{"hired", perdure.StatusCompleted, most + " welcome", "", "approved, ada (manager): help",
		time.Hour, approval.Decision{Approved: true, By: "ada", Role: "manager", Reason: "help"}},
	{"rejected", perdure.StatusCompensated, most, most, "rejected, ada (manager): no room",
		time.Hour, approval.Decision{By: "ada", Role: "manager", Reason: "no room"}},
	{"late", perdure.StatusCompensated, most, most, "expired", // because eve may not decide
		time.Second, approval.Decision{Approved: true, By: "eve", Role: "colleague"}},
	{name: "unfit", end: perdure.StatusCompensated, given: most, taken: most},
	{name: "lacking", end: perdure.StatusCompensated, given: less, taken: less},
}

func fateOf(name string) fate {
	return fates[slices.IndexFunc(fates, func(f fate) bool {
		return strings.HasPrefix(name, f.name)
	})]
}

// colleagues returns all of them by the seed: six of ten are hired.
func colleagues(p kill.Plan) map[string]staff.Hire {
	random, all := rand.New(rand.NewPCG(p.Seed, 1)), map[string]staff.Hire{}
	for i := range p.Count {
		f := fates[max(0, random.IntN(10)-5)]
		name := fmt.Sprint(f.name, "-", i)
		all[name] = staff.Hire{Name: name, Within: f.within}
	}
	return all
}

// An office is the outside of the machine.
type office struct{ *ledger.Ledger }

// Give has no laptop for some. The ledger has the rest.
func (o office) Give(ctx context.Context, key, name, thing string) (has bool, err error) {
	if thing == "laptop" && fateOf(name).name == "lacking" {
		return false, nil
	}
	return true, o.Ledger.Give(ctx, key, name, thing)
}

// Check checks the background of somebody.
func (o office) Check(_ context.Context, name string) (fine bool, err error) {
	return fateOf(name).name != "unfit", nil
}

// work is the worker, with those who decide.
func work(ctx context.Context, p kill.Plan) error {
	book, err := ledger.Open(p.Dir)
	if err != nil {
		return err
	}
	m, check := staff.Onboard(office{book})
	engine, err := p.Engine(ctx, perdure.Options{}, m, check)
	if err != nil {
		return err
	}
	go func() { log.Fatalln(decide(ctx, engine)) }()
	return kill.Runs(ctx, engine, m.Workflow, colleagues(p))
}

// decide decides what is open, again and again. The run refuses a decision of somebody who may not,
// and one that was made before a kill: the journal shows which ones count.
func decide(ctx context.Context, engine *perdure.Engine) error {
	for ; ; time.Sleep(50 * time.Millisecond) {
		open, _, err := approval.List(ctx, engine, approval.Query{Limit: 1000})
		if err != nil {
			return err
		}
		var all sync.WaitGroup
		for _, ask := range open {
			all.Go(func() {
				_, _ = approval.Decide(ctx, engine, ask.RunID, ask.Key,
					fateOf(ask.WorkflowID).decision)
			})
		}
		all.Wait()
	}
}

// judge compares the journals and the ledger with the fates.
func judge(ctx context.Context, client *perdure.Client, p kill.Plan) error {
	book, err := ledger.Open(p.Dir)
	if err != nil {
		return err
	}
	var checks kill.Checks
	counts, repeated := map[string]int{}, 0
	for name := range colleagues(p) {
		run, e1 := client.Report(ctx, name)
		asks, e2 := approval.States(ctx, client, name)
		given, taken, again, e3 := book.Of(name)
		if err := errors.Join(e1, e2, e3); err != nil {
			return err
		}
		f := fateOf(name)
		counts[f.name+" "+run.Status.String()]++
		repeated += again
		checks.That("each run has ended as the seed says", name, run.Status == f.end)
		checks.That("each thing was given once", name, sorted(given) == f.given)
		checks.That("those who are hired keep all, from the others each thing came back once",
			name, sorted(taken) == f.taken)
		checks.That("the account came back last", name,
			taken == nil || taken[len(taken)-1] == "account")
		checks.That("the journals have who decided and why, or that the time was over",
			name, decided(asks) == f.decided)
	}
	fmt.Printf("%v\n%d calls came again, and changed nothing\n", counts, repeated)
	return checks.Print()
}

func sorted(things []string) string {
	return strings.Join(slices.Sorted(slices.Values(things)), " ")
}

func decided(asks []approval.State) (all string) {
	for _, a := range asks {
		all += string(a.Status)
		for _, d := range a.Decisions {
			all += fmt.Sprintf(", %s (%s): %s", d.By, d.Role, d.Reason)
		}
	}
	return all
}
