package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
)

// A Plan is what a seed foretells.
type Plan struct {
	Seed     uint64
	Jobs     []Job
	Stock    int64     // what the shop has in the beginning
	Left     int64     // and when every order has ended
	Refused  []string  // orders that the carrier will not take
	Accounts []Account // of the bank in the beginning
	Tokens   int64     // that the model is paid
	Kills    []Target  // where a worker is killed
	Pauses   []Target  // where one is held up for longer than its lease
}

// A Job is a run that a demo asks for, and what becomes of it.
type Job struct {
	ID       string          `json:"id"` // the workflow ID of its run
	Workflow string          `json:"workflow"`
	Input    json.RawMessage `json:"input"`
	Calls    []Target        `json:"calls"`
	Status   journal.Status  `json:"status"` // that it ends with, or waits with
	Waits    time.Duration   `json:"waits"`  // how long it waits by itself for something that does not come; 0 if it ends
}

// spare is what the shop has beyond what is ordered.
const spare = 10

// fewestOrders is enough to see one that is shipped and one that is not.
const fewestOrders = 3

// DefaultOrders is how many orders a demo with that many kills has.
func DefaultOrders(kills int) int { return max(fewestOrders, kills-fewestOrders) }

// NewPlan gives the plan of a seed: so many orders, and a few runs of each other
// workflow. It fails where there are fewer calls than kills.
func NewPlan(seed uint64, orders, kills int) (Plan, error) {
	p := &planner{
		Plan:   Plan{Seed: seed, Stock: spare, Left: spare},
		random: rand.New(rand.NewPCG(seed, 0)),
	}
	p.orders(orders)
	p.transfers()
	p.approval()
	p.labels()
	p.agent()
	p.subscription()
	p.kills(kills)
	return p.Plan, p.err
}

// split leaves so many of the kills, and makes pauses of the rest.
func (p *Plan) split(kills int) {
	if len(p.Kills) > kills {
		p.Kills, p.Pauses = p.Kills[:kills], p.Kills[kills:]
	}
}

// A planner makes a plan.
type planner struct {
	Plan
	random *rand.Rand
	err    error
}

// plan adds a run of a workflow, with the calls that it makes.
func plan[I, O any](p *planner, w *perdure.Workflow[I, O], id string, in I, calls ...Target) *Job {
	input, err := json.Marshal(in)
	p.err = errors.Join(p.err, err)
	p.Jobs = append(p.Jobs, Job{ID: id, Workflow: w.Name(), Input: input, Calls: of(id, calls), Status: journal.Completed})
	return &p.Jobs[len(p.Jobs)-1]
}

// of gives the calls as those of a run.
func of(run string, calls []Target) []Target {
	for i := range calls {
		calls[i].Run = run
	}
	return calls
}

// each gives a call for each action.
func each(actions ...Action) []Target {
	calls := make([]Target, len(actions))
	for i, a := range actions {
		calls[i].Action = a
	}
	return calls
}

// firstOrder is the number of the first order: customers trust a shop that has
// sold something.
const firstOrder = 1001

// orders has every fourth order or so refused by the carrier, always one at
// least, and never all of several.
func (p *planner) orders(orders int) {
	never := p.random.IntN(orders)
	surely := (never + 1) % orders
	for i := range orders {
		id := fmt.Sprintf("ord-%d", firstOrder+i)
		o := Order{Quantity: 1 + p.random.Int64N(3), Cents: p.cents()}
		p.Stock += o.Quantity
		calls, refused := each(Reserve, Charge, Ship), i == never || i != surely && p.random.IntN(4) == 0
		if refused {
			calls = append(calls, each(Refund, Release)...)
		}
		j := plan(p, fulfilment(nil).Workflow, id, o, calls...)
		if refused {
			j.Status = journal.Failed
			p.Refused = append(p.Refused, id)
			p.Left += o.Quantity
		}
	}
}

// transfers has one that is confirmed and one that is cancelled.
func (p *planner) transfers() {
	p.Accounts = []Account{{Name: "ada", Cents: 600_000}, {Name: "bob", Cents: 400_000}, {Name: "cleo", Closed: true}}
	j := plan(p, transfer(nil).Workflow, "tx-7", Transfer{From: "ada", To: "bob", Cents: p.cents()}, each(Hold, Announce, Take, Give)...)
	j.Status = journal.Confirmed
	j = plan(p, transfer(nil).Workflow, "tx-8", Transfer{From: "bob", To: "cleo", Cents: p.cents()}, each(Hold, Announce, GiveBack)...)
	j.Status = journal.Canceled
}

// The runs that somebody waits for.
const (
	approvalID     = "exp-9"
	subscriptionID = "sub-5"
)

var waiting = []string{approvalID, subscriptionID}

func (p *planner) approval() {
	e := Expense{By: "ada", For: "a train ticket", Cents: p.cents()}
	j := plan(p, approval(nil), approvalID, e, Target{Action: Mail, Of: "manager"})
	j.Status, j.Waits = journal.Waiting, timeToDecide
}

func (p *planner) labels() {
	var parcels []string
	var calls []Target
	for i := range 5 + p.random.IntN(4) {
		parcels = append(parcels, fmt.Sprintf("parcel-%d", i+1))
		calls = append(calls, Target{Action: Print, Of: parcels[i]})
	}
	plan(p, labels(nil), "lbl-3", parcels, calls...)
}

func (p *planner) agent() {
	var calls []Target
	for i, r := range script {
		turn := fmt.Sprint("turn-", i+1)
		calls = append(calls, Target{Action: Ask, Of: turn})
		if r.Tool != "" {
			calls = append(calls, Target{Action: Action(r.Tool), Of: turn})
		}
		p.Tokens += r.Tokens
	}
	plan(p, agent(nil), "q-3", "Where is parcel 4711?", calls...)
}

func (p *planner) subscription() {
	j := plan(p, subscription(nil), subscriptionID, Subscription{Mail: "bob", Cents: 900}, Target{Action: Mail, Of: "bob"})
	j.Status, j.Waits = journal.Waiting, month
}

// cents gives a price.
func (p *planner) cents() int64 { return 500 + p.random.Int64N(9500) }

// kills spreads the kills over the workflows, in turn, as long as each has
// calls left, and over the calls of a workflow at random.
func (p *planner) kills(kills int) {
	calls := map[string][]Target{}
	var workflows []string
	total := 0
	for _, j := range p.Jobs {
		if calls[j.Workflow] == nil {
			workflows = append(workflows, j.Workflow)
		}
		calls[j.Workflow] = append(calls[j.Workflow], j.Calls...)
		total += len(j.Calls)
	}
	if kills > total {
		p.err = fmt.Errorf("%s have %s: too few for %s", counted(len(p.Jobs), "run"), counted(total, "call"), counted(kills, "kill"))
		return
	}
	shuffle(p.random, workflows)
	for _, w := range workflows {
		shuffle(p.random, calls[w])
	}
	for len(p.Kills) < kills {
		for _, w := range workflows {
			if len(calls[w]) > 0 && len(p.Kills) < kills {
				p.Kills = append(p.Kills, calls[w][0])
				calls[w] = calls[w][1:]
			}
		}
	}
}

func shuffle[T any](random *rand.Rand, s []T) {
	random.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
}
