package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/perdure/perdure/examples/agent/assistant"
	"github.com/perdure/perdure/examples/approval/expense"
	"github.com/perdure/perdure/examples/orders/order"
	"github.com/perdure/perdure/examples/subscription/billing"
	"github.com/perdure/perdure/examples/transfer/money"
	"github.com/perdure/perdure/journal"
)

// A Plan has the runs and the kills of a demo. It follows from a seed and, for the
// subscription, from the day.
type Plan struct {
	Seed     uint64
	Made     time.Time
	Jobs     []Job
	Stock    int64     // of the shop at the start
	Left     int64     // stock when every order has ended
	Accounts []Account // of the bank at the start
	Tokens   int64     // tokens that the model is paid for
	Kills    []Target  // calls in which a worker is killed
	Pauses   []Target  // calls in which a worker is paused for longer than its lease
}

// A Job is a run of the demo, with its expected calls and status.
type Job struct {
	ID       string          `json:"id"` // the workflow ID of its run
	Workflow string          `json:"workflow"`
	Input    json.RawMessage `json:"input"`
	Calls    []Target        `json:"calls"`
	Status   journal.Status  `json:"status"`
	// Waits is the time from the making of the plan until the run goes on by itself,
	// because it waits for a signal that does not come. It is 0 if the run ends.
	Waits time.Duration `json:"waits"`
}

// spare is the stock that no order needs.
const spare = 10

// fewestOrders is enough for an order that is shipped and an order that is not.
const fewestOrders = 3

// DefaultOrders returns the number of orders for that many kills.
func DefaultOrders(kills int) int { return max(fewestOrders, kills-fewestOrders) }

// NewPlan returns the plan of a seed: this number of orders, and a few runs of each other
// workflow. It fails if there are fewer calls than kills.
func NewPlan(seed uint64, orders, kills int, now time.Time) (Plan, error) {
	p := &planner{
		Plan:   Plan{Seed: seed, Made: now, Stock: spare, Left: spare},
		random: rand.New(rand.NewPCG(seed, 0)),
	}
	p.orders(orders)
	p.transfers()
	p.approval()
	p.report()
	p.agent()
	p.subscription()
	p.kills(kills)
	return p.Plan, p.err
}

// split keeps this number of kills, and turns the others into pauses.
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

// plan adds a run of a workflow, which calls the world in these steps.
func (p *planner) plan(workflow, id string, in any, steps ...Action) *Job {
	input, err := json.Marshal(in)
	p.err = errors.Join(p.err, err)
	p.Jobs = append(p.Jobs, Job{
		ID: id, Workflow: workflow, Input: input, Calls: callsOf(id, steps...),
		Status: journal.Completed,
	})
	return &p.Jobs[len(p.Jobs)-1]
}

// callsOf returns the steps of a run as targets.
func callsOf(run string, steps ...Action) []Target {
	calls := make([]Target, len(steps))
	for i, step := range steps {
		calls[i] = Target{run, string(step)}
	}
	return calls
}

// keyed returns the path of a step with a key.
func keyed(step Action, key string) Action { return Action(fmt.Sprintf("%s[%s]", step, key)) }

// firstOrder is the number of the first order. It is not 1, because customers trust a shop
// that has sold something.
const firstOrder = 1001

// orders plans the orders. The carrier refuses about every fourth: at least one, and never
// all of several.
func (p *planner) orders(orders int) {
	never := p.random.IntN(orders)
	surely := (never + 1) % orders
	for i := range orders {
		id := fmt.Sprintf("ord-%d", firstOrder+i)
		o := order.Order{ID: id, Item: "teapot", Card: "tok_1", Country: "IS", Cents: p.cents()}
		p.Stock++
		if i == never || i != surely && p.random.IntN(4) == 0 {
			o.Country = antarctica
			p.plan("order-fulfilment", id, o, Reserve, Charge, Ship, Refund, Release).Status =
				journal.Failed
			p.Left++
		} else {
			p.plan("order-fulfilment", id, o, Reserve, Charge, Ship)
		}
	}
}

// transfers plans a transfer that is confirmed and one that is cancelled.
func (p *planner) transfers() {
	p.Accounts = []Account{
		{Name: "ada", Cents: 600_000}, {Name: "bob", Cents: 400_000}, {Name: "cleo", Closed: true},
	}
	good := money.Transfer{From: "ada", To: "bob", Cents: int64(p.cents())}
	p.plan("transfer", "tx-7", good, Hold, Announce, Take, Give).Status = journal.Confirmed
	bad := money.Transfer{From: "bob", To: "cleo", Cents: int64(p.cents())}
	p.plan("transfer", "tx-8", bad, Hold, Announce, GiveBack).Status = journal.Canceled
}

// The runs that still wait when the others have ended.
const (
	approvalID     = "exp-9"
	subscriptionID = "sub-5"
)

var waiting = []string{approvalID, subscriptionID}

func (p *planner) approval() {
	e := expense.Expense{By: "ada", For: "a train ticket", Cents: p.cents()}
	j := p.plan("expense-approval", approvalID, e, Ask)
	j.Status, j.Waits = journal.Waiting, expense.Day
}

func (p *planner) report() {
	p.plan("daily-report", "rep-3", p.Made.Format(time.DateOnly), Sales, Returns, Stock, Write)
}

func (p *planner) agent() {
	var steps []Action
	for i, reply := range script {
		turn := fmt.Sprint("turn-", i+1)
		steps = append(steps, keyed(Think, turn))
		if reply.Tool != "" {
			steps = append(steps, keyed(Action(reply.Tool), turn))
		}
		p.Tokens += int64(reply.Tokens)
	}
	q := assistant.Question{Text: "Where is parcel 4711?", Budget: int(p.Tokens)}
	p.plan("agent", "q-3", q, steps...)
}

// subscription plans a subscription that began ten weeks ago: each month since then is
// charged at once.
func (p *planner) subscription() {
	s := billing.Subscription{Customer: "bob", Plan: "basic", Card: "tok_2"}
	s.First = p.Made.UTC().Truncate(24*time.Hour).AddDate(0, 0, -70)
	first, steps := s, []Action{}
	for ; s.Due().Before(p.Made); s.Months++ {
		steps = append(steps, keyed(Charge, s.Due().Format(time.DateOnly)))
	}
	j := p.plan("subscription", subscriptionID, first, steps...)
	j.Status, j.Waits = journal.Waiting, s.Due().Sub(p.Made)
}

// cents returns a random price.
func (p *planner) cents() int { return 500 + p.random.IntN(9500) }

// kills spreads the kills over the workflows, in turn, while they have calls left. Within a
// workflow it chooses calls at random.
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
		p.err = fmt.Errorf("%s have %s: too few for %s", counted(len(p.Jobs), "run"),
			counted(total, "call"), counted(kills, "kill"))
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
