package arch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A permit lists what a package may import beside the standard library.
type permit struct {
	own    string // packages of this module; anyPublic for all that are not internal
	others string // packages of others
}

// plan has every package, from the bottom up. A package imports only what
// is below it. What is not listed here is not allowed; what is listed and not
// used is taken off the list.
//
// The core (everything but drivers and the programs) has no entry under others:
// who embeds the engine pays for the standard library and one driver.
var plan = map[string]permit{
	// ground
	"internal/cron":     {},
	"internal/guard":    {},
	"internal/jsontype": {},
	"internal/lock":     {},
	"internal/near":     {},
	// words
	"journal":      {},
	"observe":      {own: "internal/guard journal"},
	"api":          {own: "journal"},
	"event":        {},
	"event/schema": {others: "github.com/santhosh-tekuri/jsonschema/v6"},
	// keeping
	"store":        {own: "journal"},
	"store/memory": {own: "journal store"},
	"store/sqlite": {
		own: "internal/lock journal store", others: "golang.org/x/sys/unix modernc.org/sqlite " +
			"modernc.org/sqlite/lib",
	},
	"store/postgres": {
		own: "journal store", others: "github.com/jackc/pgx/v5 github.com/jackc/pgx/v5/pgconn " +
			"github.com/jackc/pgx/v5/pgtype github.com/jackc/pgx/v5/pgxpool " +
			"github.com/jackc/pgx/v5/stdlib",
	},
	"store/remote":    {own: "journal store"},
	"store/storetest": {own: "journal store"},
	"store/floor":     {own: "journal store"},
	"codec":           {own: "journal store"},
	"internal/place": {
		own:    "journal store store/sqlite store/postgres store/remote",
		others: "github.com/jackc/pgx/v5 github.com/jackc/pgx/v5/pgconn",
	},
	"store/open": {own: "internal/place store store/memory"},
	// running
	"internal/rules":   {own: "store"},
	"internal/kernel":  {own: "internal/guard internal/lock internal/rules journal observe store"},
	"internal/failure": {own: "internal/guard journal"},
	"internal/payload": {own: "internal/failure internal/guard journal"},
	// what a definition is, and what options are applied to
	"definition": {own: "internal/failure journal"},
	"internal/sealed": {
		own: "definition internal/failure internal/kernel internal/payload internal/rules " +
			"journal store",
	},
	"internal/paced": {own: "internal/failure internal/kernel"},
	"internal/token": {own: "internal/kernel internal/sealed journal store"},
	"internal/reply": {own: "internal/failure internal/kernel internal/sealed journal store"},
	"backpressure": {
		own: "definition internal/failure internal/guard internal/kernel internal/paced " +
			"internal/payload internal/sealed journal",
	},
	"report": {
		own: "internal/failure internal/kernel internal/payload internal/sealed journal",
	},
	"limit": {
		own: "internal/failure internal/kernel internal/rules internal/sealed journal store",
	},
	"deadletter": {
		own: "internal/failure internal/kernel internal/payload internal/sealed journal",
	},
	// the root
	rootPackage: {
		own: "backpressure deadletter definition internal/failure internal/guard internal/kernel " +
			"internal/payload internal/rules internal/sealed journal observe report store",
	},
	// patterns and operators
	"admin": {
		own: "/ deadletter internal/failure internal/kernel internal/payload internal/rules " +
			"internal/sealed internal/token journal limit store",
	},
	"pattern": {
		own: "/ backpressure definition internal/failure internal/guard internal/jsontype " +
			"internal/kernel internal/paced internal/payload internal/sealed journal report",
	},
	"saga": {
		own: "/ backpressure deadletter definition internal/guard internal/jsontype pattern report",
	},
	"tcc": {own: "/ backpressure deadletter definition internal/guard pattern report"},
	"dag": {
		own: "/ backpressure deadletter definition internal/guard internal/jsontype journal " +
			"pattern report",
	},
	"effect": {
		own: "/ internal/failure internal/kernel internal/payload internal/sealed journal pattern",
	},
	"machine": {
		own: "/ approval definition internal/failure internal/guard pattern report",
	},
	"filter": {own: "/ internal/near journal"},
	// events in and out
	"bus": {
		own: "/ admin deadletter event internal/guard internal/sealed journal observe",
	},
	"bus/natsbus": {
		own: "bus event", others: "github.com/nats-io/nats.go github.com/nats-io/nats.go/jetstream",
	},
	"bus/amqpbus": {own: "bus event", others: "github.com/rabbitmq/amqp091-go"},
	"bus/kafkabus": {
		own: "bus event", others: "github.com/twmb/franz-go/pkg/kerr " +
			"github.com/twmb/franz-go/pkg/kfake github.com/twmb/franz-go/pkg/kgo " +
			"github.com/twmb/franz-go/pkg/kmsg",
	},
	"bus/redisbus":   {own: "bus event", others: "github.com/redis/go-redis/v9"},
	"bus/brokertest": {own: "bus event"},
	// the client and the events of the SDK are for its tests
	"bus/webhook": {
		own: "bus event internal/guard",
		others: "github.com/cloudevents/sdk-go/v2/binding " +
			"github.com/cloudevents/sdk-go/v2/binding/format " +
			"github.com/cloudevents/sdk-go/v2/binding/spec " +
			"github.com/cloudevents/sdk-go/v2/client github.com/cloudevents/sdk-go/v2/event " +
			"github.com/cloudevents/sdk-go/v2/protocol/http",
	},
	"orchestrator": {
		own: "/ deadletter definition event internal/guard internal/kernel internal/sealed " +
			"journal pattern",
	},
	"orchestrator/memorytest": {own: "event orchestrator"},
	// the drivers are for its tests
	"orchestrator/sqlmemory": {
		own: "orchestrator", others: "github.com/jackc/pgx/v5/stdlib modernc.org/sqlite",
	},
	"orchestrator/natsmemory": {
		own: "orchestrator", others: "github.com/nats-io/nats.go " +
			"github.com/nats-io/nats.go/jetstream",
	},
	"orchestrator/redismemory": {
		own: "orchestrator", others: "github.com/redis/go-redis/v9",
	},
	// the SDK is for its tests
	"orchestrator/trace": {
		own: "event internal/guard orchestrator",
		others: "go.opentelemetry.io/otel go.opentelemetry.io/otel/attribute " +
			"go.opentelemetry.io/otel/codes go.opentelemetry.io/otel/propagation " +
			"go.opentelemetry.io/otel/sdk/trace go.opentelemetry.io/otel/sdk/trace/tracetest " +
			"go.opentelemetry.io/otel/trace go.opentelemetry.io/otel/trace/noop",
	},
	"schedule": {
		own: "/ internal/cron internal/failure internal/kernel internal/sealed journal store",
	},
	"job": {own: "/ internal/failure internal/sealed limit"},
	"stream": {
		own: "/ internal/failure internal/kernel internal/payload internal/sealed journal store",
	},
	"steplog": {own: "/ internal/failure internal/kernel internal/sealed journal"},
	"update": {
		own: "/ internal/failure internal/guard internal/kernel internal/payload internal/reply " +
			"internal/sealed journal",
	},
	"approval": {
		own: "/ internal/failure internal/guard internal/kernel internal/reply internal/sealed " +
			"internal/token journal store",
	},
	"callback": {
		own: "/ internal/failure internal/kernel internal/payload internal/sealed internal/token " +
			"journal store",
	},
	"approval/form": {own: "/ event/schema journal"},
	"alert": {
		own: "/ admin approval deadletter internal/failure internal/kernel internal/rules " +
			"internal/sealed journal store",
	},
	"alert/mail": {own: "/ journal", others: "github.com/wneessen/go-mail"},
	"batch": {
		own: "/ admin filter internal/failure internal/kernel internal/sealed journal store",
	},
	"perduretest": {own: "/ journal observe report store store/memory"},
	// the SDK is for its tests
	"telemetry": {
		own: "/ observe",
		others: "go.opentelemetry.io/otel go.opentelemetry.io/otel/attribute " +
			"go.opentelemetry.io/otel/codes go.opentelemetry.io/otel/metric " +
			"go.opentelemetry.io/otel/propagation go.opentelemetry.io/otel/sdk/metric " +
			"go.opentelemetry.io/otel/sdk/metric/metricdata go.opentelemetry.io/otel/sdk/trace " +
			"go.opentelemetry.io/otel/sdk/trace/tracetest go.opentelemetry.io/otel/trace",
	},
	"telemetry/prometheus": {
		others: "github.com/prometheus/client_golang/prometheus " +
			"github.com/prometheus/client_golang/prometheus/promhttp " +
			"go.opentelemetry.io/otel/exporters/prometheus go.opentelemetry.io/otel/sdk/metric",
	},
	"telemetry/otlp": {
		own: "journal telemetry",
		others: "go.opentelemetry.io/otel/attribute " +
			"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp " +
			"go.opentelemetry.io/otel/sdk/resource go.opentelemetry.io/otel/sdk/trace",
	},
	// the parser of Prometheus is for its tests
	"telemetry/grafana": {others: "github.com/prometheus/prometheus/promql/parser"},
	// that is for its tests
	"barrier": {own: "/ pattern", others: "github.com/jackc/pgx/v5/stdlib"},
	"expr": {
		own: "/ internal/guard pattern",
		others: "github.com/expr-lang/expr/ast github.com/expr-lang/expr/checker " +
			"github.com/expr-lang/expr/conf github.com/expr-lang/expr/file " +
			"github.com/expr-lang/expr/parser github.com/expr-lang/expr/types",
	},
	"internal/present": {
		own: "/ admin alert api approval callback internal/near journal limit observe report " +
			"steplog store stream",
	},
	"server/auth": {others: "golang.org/x/time/rate"},
	// the schemas are for its tests
	"server": {
		own: anyPublic + " internal/present", others: "github.com/danielgtaylor/huma/v2 " +
			"github.com/danielgtaylor/huma/v2/adapters/humago " +
			"github.com/santhosh-tekuri/jsonschema/v6",
	},
	// the browser is for its tests
	"server/ui": {
		others: "github.com/chromedp/cdproto/cdp github.com/chromedp/cdproto/emulation " +
			"github.com/chromedp/cdproto/log github.com/chromedp/cdproto/network " +
			"github.com/chromedp/cdproto/runtime github.com/chromedp/chromedp " +
			"github.com/chromedp/chromedp/kb",
	},
	"server/mcp": {
		own: "internal/guard journal server/auth",
		others: "github.com/modelcontextprotocol/go-sdk/jsonrpc " +
			"github.com/modelcontextprotocol/go-sdk/mcp",
	},
	// programs
	"app/internal/config": {
		own:    "/ codec definition internal/place journal server/auth store",
		others: "go.yaml.in/yaml/v3",
	},
	"app/internal/serving": {
		own:    anyPublic + " app/internal/config internal/place",
		others: "go.opentelemetry.io/otel/metric",
	},
	"app/internal/sample":   {own: anyPublic},
	"app/internal/scripted": {own: anyPublic},
	"app/onpostgres":        {},
	"app/internal/dev":      {own: "/ journal"},
	"app": {
		own:    anyPublic + " internal/place internal/present",
		others: "github.com/spf13/cobra github.com/spf13/pflag golang.org/x/term",
	},
	"app/internal/bench":    {own: anyPublic + " internal/place"},
	"app/internal/demo":     {own: anyPublic + " internal/place", others: "golang.org/x/term"},
	"cmd/perdure":           {own: "app"},
	"examples/hello":        {own: "/ store/sqlite"},
	"examples/orders":       {own: "/ app examples/orders/order"},
	"examples/approval":     {own: "app examples/approval/expense"},
	"examples/agent":        {own: "/ app examples/agent/assistant"},
	"examples/subscription": {own: "app examples/subscription/billing"},
	"examples/poller":       {own: "app examples/poller/feed"},
	"examples/nightly":      {own: "app examples/nightly/closing"},
	"examples/quota":        {own: "app examples/quota/crm"},
	"examples/pipeline":     {own: "/ admin examples/pipeline/daily store/sqlite"},
	"examples/transfer": {
		own: "/ examples/internal/kill examples/transfer/bank examples/transfer/money store/sqlite",
	},
	"examples/onboarding": {
		own: "/ approval examples/internal/kill examples/internal/ledger examples/onboarding/staff",
	},
	"examples/researcher": {own: "/ bus event orchestrator store/sqlite"},
	"examples/kafka": {
		own:    "/ admin bus bus/kafkabus event store/sqlite",
		others: "github.com/twmb/franz-go/pkg/kfake github.com/twmb/franz-go/pkg/kgo",
	},
	"examples/events": {
		own: "/ bus event examples/events/shop examples/internal/kill examples/internal/ledger " +
			"examples/internal/noise orchestrator",
	},
	"examples/transfer/bank": {own: "/ barrier examples/transfer/money"},
	// the workflows of the examples, which the demo runs too
	"examples/orders/order":         {own: "/ saga"},
	"examples/approval/expense":     {own: "/"},
	"examples/agent/assistant":      {own: "/ approval stream update"},
	"examples/subscription/billing": {own: "/"},
	"examples/poller/feed":          {own: "/ schedule"},
	"examples/nightly/closing":      {own: "/ limit schedule"},
	"examples/quota/crm":            {own: "/ limit"},
	"examples/pipeline/daily":       {own: "/ dag"},
	"examples/transfer/money":       {own: "/ tcc"},
	"examples/events/shop":          {own: "event event/schema orchestrator"},
	"examples/onboarding/staff":     {own: "/ approval machine"},
	// beside the examples: how they are killed, and how their tests use them
	"examples/internal/kill":     {own: "/ store/sqlite"},
	"examples/internal/ledger":   {},
	"examples/internal/noise":    {own: "event"},
	"examples/internal/terminal": {},
	// the documents, and the code of the how-to pages
	"docs":                    {},
	"docs/howto/alerts":       {own: anyPublic},
	"docs/howto/events":       {own: anyPublic},
	"docs/howto/mending":      {own: anyPublic},
	"docs/howto/jobs":         {own: anyPublic},
	"docs/howto/limits":       {own: anyPublic},
	"docs/howto/retries":      {own: anyPublic},
	"docs/howto/waiting":      {own: anyPublic},
	"docs/howto/schedules":    {own: anyPublic},
	"docs/howto/sagas":        {own: anyPublic},
	"docs/howto/machines":     {own: anyPublic},
	"docs/howto/tcc":          {own: anyPublic},
	"docs/howto/transactions": {own: anyPublic, others: "github.com/jackc/pgx/v5/stdlib"},
	"docs/howto/idempotency":  {own: anyPublic},
	"docs/howto/testing":      {own: anyPublic},
	"docs/howto/approvals":    {own: anyPublic},
	"docs/howto/deploying":    {own: anyPublic},
	"docs/howto/growing":      {own: anyPublic},
	"docs/howto/embedding":    {own: anyPublic},
	"docs/howto/encryption":   {own: anyPublic},
	"docs/howto/agents": {
		own: anyPublic, others: "github.com/modelcontextprotocol/go-sdk/mcp", // for its tests
	},
	"docs/howto/telemetry": {
		own:    anyPublic,
		others: "go.opentelemetry.io/otel/metric go.opentelemetry.io/otel/trace",
	},
	"docs/howto/streams": {own: anyPublic},
	"docs/howto/api":     {own: anyPublic},
	// this package
	"internal/arch": {},
	// helpers of tests
	"internal/faultproxy":  {},
	"internal/testbroker":  {own: "bus event"},
	"internal/testpg":      {},
	"internal/testpg/farm": {own: "internal/testpg", others: "github.com/jackc/pgx/v5"},
	"internal/testserver":  {},
	"internal/script":      {},
	"internal/patterntest": {own: "/ admin deadletter perduretest report"},
	// the external tests of the engine, and what they share
	"internal/enginetest":           {},
	"internal/enginetest/steps":     {},
	"internal/enginetest/replay":    {},
	"internal/enginetest/waiting":   {},
	"internal/enginetest/limits":    {},
	"internal/enginetest/ends":      {},
	"internal/enginetest/operators": {},
	"internal/enginetest/observers": {},
	"internal/enginetest/cluster":   {},
	"internal/enginetest/faults":    {},
	"internal/enginetest/races":     {},
	"internal/enginetest/patterns":  {},
	"internal/enginetest/world": {
		own: "/ journal observe store store/memory store/sqlite store/storetest",
	},
	// generated programs, and the judge of their runs
	"internal/torture/program": {},
	"internal/torture/play": {
		own: "/ admin alert approval backpressure barrier batch bus callback dag deadletter " +
			"effect event internal/torture/program job journal limit machine orchestrator " +
			"pattern report saga schedule steplog stream tcc update",
	},
	"internal/torture/world": {own: "internal/torture/play"},
	"internal/torture/actor": {
		own: "/ admin alert approval batch deadletter event internal/torture/play " +
			"internal/torture/program journal limit orchestrator schedule",
	},
	"internal/torture/judge": {
		own: "alert internal/torture/actor internal/torture/play internal/torture/program " +
			"internal/torture/world journal limit schedule store",
	},
	"internal/torture": {
		own: "/ barrier internal/faultproxy internal/testpg internal/torture/actor " +
			"internal/torture/judge internal/torture/play internal/torture/program " +
			"internal/torture/world journal observe perduretest store store/postgres store/sqlite",
		others: "github.com/jackc/pgx/v5/stdlib",
	},
}

// programs wire everything together. They are not counted
// as depth.
var programs = []string{"app", "cmd/", "docs/", "examples/", "internal/torture"}

// anyPublic stands for every package that users may import, and the internal
// ones next to the importer.
const anyPublic = "*"

const maxDepth = 10 // of imports below the programs

func isProgram(path string) bool {
	return slices.ContainsFunc(programs, func(s string) bool {
		return path == strings.TrimSuffix(s, "/") ||
			strings.HasPrefix(path, strings.TrimSuffix(s, "/")+"/")
	})
}

func planRules() []rule {
	return []rule{
		{
			name: "plan/every package is in the plan, and the plan has no other", check: unplanned,
			bad: map[string]string{"util/util.go": "package util"},
			want: []string{
				"util is not in the plan", "journal is in the plan and not in the module",
			},
		},
		{
			name: "plan/packages import what the plan allows", check: forbidden,
			bad: map[string]string{
				"journal/journal.go":  `package journal; import ("github.com/perdure/perdure/store"; "modernc.org/sqlite")`,
				"store/store_test.go": `package store; import "github.com/stretchr/testify/assert"`,
				"perdure.go":          `package perdure; import "github.com/perdure/perdure"`,
				"app/app.go":          `package app; import ("github.com/perdure/perdure/internal/kernel"; _ "github.com/perdure/perdure/app/internal/demo")`,
			},
			want: []string{
				"app imports internal/kernel",
				"journal imports store", "journal imports modernc.org/sqlite",
				"store imports github.com/stretchr/testify/assert", "/ imports /",
			},
			fine: []string{"app/internal/demo"},
		},
		{
			name: "plan/nothing is allowed that nobody uses", check: unusedPermits,
			bad: map[string]string{"store/sqlite/open.go": "package sqlite"},
			want: []string{
				"store/sqlite may import journal", "store/sqlite may import modernc.org/sqlite",
			},
		},
		{
			name: "plan/imports are at most 10 deep below the programs", check: deep,
			bad: map[string]string{
				"a/a.go": `package a; import _ "github.com/perdure/perdure/b"`,
				"b/b.go": `package b; import _ "github.com/perdure/perdure/c"`,
				"c/c.go": `package c; import _ "github.com/perdure/perdure/d"`,
				"d/d.go": `package d; import _ "github.com/perdure/perdure/e"`,
				"e/e.go": `package e; import _ "github.com/perdure/perdure/f"`,
				"f/f.go": `package f; import _ "github.com/perdure/perdure/g"`,
				"g/g.go": `package g; import _ "github.com/perdure/perdure/h"`,
				"h/h.go": `package h; import _ "github.com/perdure/perdure/i"`,
				"i/i.go": `package i; import _ "github.com/perdure/perdure/j"`,
				"j/j.go": `package j; import _ "github.com/perdure/perdure/k"`,
				"k/k.go": `package k; import _ "github.com/perdure/perdure/l"`,
				"l/l.go": `package l`,
			},
			want: []string{"a → b → c → d → e → f → g → h → i → j → k → l"},
		},
	}
}

func unplanned(h *module) (found []string) {
	for _, r := range h.sorted() {
		if _, ok := plan[r.path]; !ok {
			found = append(found, fmt.Sprintf("%s is not in the plan: give it its floor there, "+
				"or find the package that this belongs to", r.path))
		}
	}
	for _, p := range slices.Sorted(maps.Keys(plan)) {
		if h.packages[p] == nil {
			found = append(found, p+" is in the plan and not in the module: take it off")
		}
	}
	return found
}

// forbidden finds imports that the plan does not allow. Tests may import every package of the
// module, and those of others that their package may import.
func forbidden(h *module) (found []string) {
	for _, r := range h.sorted() {
		p := plan[r.path]
		own, _ := imports(r.code())
		_, others := imports(r.files)
		for _, in := range own {
			if !p.allows(r.path, in) {
				found = append(
					found, fmt.Sprintf("%s imports %s: a package imports what is below it and in "+
						"the plan; pass it in, or move what both need down", r.path, in))
			}
		}
		for _, in := range others {
			if !isStandard(in) && !slices.Contains(strings.Fields(p.others), in) {
				found = append(
					found,
					fmt.Sprintf("%s imports %s: the core stays on the standard library; others "+
						"are for drivers and programs only, with the reason in "+
						"docs/dependencies.md",
						r.path, in))
			}
		}
	}
	return found
}

// allows reports whether the package at path may import another one of this module.
func (p permit) allows(path, in string) bool {
	own := strings.Fields(p.own)
	if slices.Contains(own, in) || !slices.Contains(own, anyPublic) {
		return slices.Contains(own, in)
	}
	next, _, internal := strings.Cut(in, "internal/")
	return !internal || next != "" && strings.HasPrefix(path+"/", next)
}

func unusedPermits(h *module) (found []string) {
	for _, r := range h.sorted() {
		p := plan[r.path]
		own, _ := imports(r.code())
		_, others := imports(r.files)
		for _, in := range append(strings.Fields(p.own), strings.Fields(p.others)...) {
			if in != anyPublic && !slices.Contains(own, in) && !slices.Contains(others, in) {
				found = append(found, fmt.Sprintf("%s may import %s and does not: take it off",
					r.path, in))
			}
		}
	}
	return found
}

func deep(h *module) (found []string) {
	chains := map[string][]string{}
	var longest func(string) []string
	longest = func(p string) []string {
		if chain, ok := chains[p]; ok || h.packages[p] == nil {
			return chain
		}
		chains[p] = []string{p} // ends a cycle, which the compiler refuses anyhow
		own, _ := imports(h.packages[p].code())
		var below []string
		for _, in := range own {
			if c := longest(in); len(c) > len(below) {
				below = c
			}
		}
		chains[p] = append([]string{p}, below...)
		return chains[p]
	}
	for _, r := range h.sorted() {
		if chain := longest(r.path); !isProgram(r.path) && len(chain)-1 > maxDepth {
			found = append(found, fmt.Sprintf("imports are %d deep, at most %d: %s", len(chain)-1,
				maxDepth, strings.Join(chain, " → ")))
		}
	}
	return found
}
