package expr_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/expr"
	"github.com/perdure/perdure/journal"
)

// known returns the view that the conditions of these tests decide by.
func known() pattern.View {
	return pattern.View{
		Input: json.RawMessage(`{
			"total": 120.5, "rush": true, "note": null, "name": "Ærla", "zip": "0107", "a-b": 1, "big": {"id": 9007199254740993},
			"items": [{"sku": "x-1", "price": 30}, {"sku": "y-2", "price": 150}], "tags": ["new", "gift"], "none": [], "pair": [{"a": 1}, {"a": 1, "b": 2}], "mixed": [1, "x", null]}`),
		Results: map[string]json.RawMessage{
			"validate":    json.RawMessage(`{"ok": true, "score": 0.87}`),
			"fraud-check": json.RawMessage(`{"risk": "low"}`),
			"reserve":     json.RawMessage(`"hold-7"`), "übergabe": json.RawMessage(`1`),
			"1": json.RawMessage(`true`), "": json.RawMessage(`"empty"`), "nothing": nil,
		},
		Variables: variables(map[string]json.RawMessage{
			"tier":  json.RawMessage(`"gold"`),
			"limit": json.RawMessage(`1000`),
		}),
		Headers: map[string]string{"X-Tenant": "acme", "X-Priority": "7", "note": ""},
	}
}

// variables returns a function that returns these variables.
func variables(all map[string]json.RawMessage) func(...string) (map[string]json.RawMessage, error) {
	return func(names ...string) (map[string]json.RawMessage, error) {
		if len(names) == 0 {
			return all, nil
		}
		some := map[string]json.RawMessage{}
		for _, name := range names {
			if v, there := all[name]; there {
				some[name] = v
			}
		}
		return some, nil
	}
}

func decide(t *testing.T, text string, k pattern.View) (bool, error) {
	t.Helper()
	c := expr.When(text)
	if err := c.Check(); err != nil {
		t.Errorf("%s: refused: %v", text, err)
	}
	return c.Holds(t.Context(), k)
}

// decideAll decides texts by known(). Of each pair the first is true and the second false.
func decideAll(t *testing.T, pairs [][2]string) {
	t.Helper()
	for _, pair := range pairs {
		for i, text := range pair {
			if text == "" {
				continue
			}
			if holds, err := decide(t, text, known()); err != nil || holds != (i == 0) {
				t.Errorf("%s: %v, %v", text, holds, err)
			}
		}
	}
}

// spec: F-16
func TestConditionsDecide(t *testing.T) {
	decideAll(t, [][2]string{
		{
			`input.total > 100 && results.validate.ok && variables.tier == "gold" && headers["X-Tenant"] != ""`,
			`input.total > 100 && variables.tier == "silver"`,
		},
		{`true`, `false`}, {`input.rush`, `not input.rush`}, {`!false`, `!true`},
		{`true and true`, `true && false`}, {`false or true`, `false || false`},
		{`true || input.note.x`, `false && input.note.x`},
		{`input.total == 120.5`, `input.total != 120.5`}, {
			`input.total < 121`, `input.total < 120.5`,
		}, {`input.total <= 120.5`, `input.total <= 120`},
		{`input.total > 120`, `input.total > 120.5`}, {
			`input.total >= 120.5`, `input.total >= 121`,
		}, {`100 < input.total < 200`, `100 < input.total < 120`},
		{`"a" < "b"`, `"b" < "a"`}, {`"Z" < "a"`, `"aa" <= "a"`}, {`"b" > "a"`, `"a" >= "b"`},
		{`input.total + 1 == 121.5`, `input.total + 1 == 120.5`},
		{`input.total - 20.5 == 100`, `1 - 2 > 0`}, {`input.total * 2 == 241`, `3 * 3 == 6`},
		{`input.total / 4 == 30.125`, `7 / 2 == 3`}, {`7 % 3 == 1`, `7 % 3 == 2`},
		{`-7 % 3 == -1`, `-input.total > 0`}, {`2 + 3 * 4 == 14`, `(2 + 3) * 4 == 14`},
		{`"a" + "b" == "ab"`, `"a" + "b" == "ba"`},
		{`variables.tier in ["silver", "gold"]`, `variables.tier not in ["silver", "gold"]`}, {
			`1.0 in input.mixed`, `"1" in input.mixed`,
		}, {`nil in input.mixed`, `nil in input.tags`},
		{`"validate" in results`, `"ship" in results`},
		{`"X-Tenant" in headers`, `"x-tenant" in headers`},
		{`input.zip contains "10"`, `input.zip contains "11"`}, {
			`input.zip startsWith "01"`, `input.zip startsWith "10"`,
		}, {`input.zip endsWith "07"`, `input.zip endsWith "01"`},
		{`input.zip matches "^\\d{4}$"`, `input.zip not matches "^\\d{4}$"`},
		{"input.zip matches `^\\d+$`", `input.zip matches "^1"`},
		{`input.rush ? input.total > 100 : false`, `input.rush ? false : true`},
		{`(input.note ?? 5) == 5`, `(input.total ?? 5) == 5`},
		{`len(input.name) == 4`, `len(input.name) == 5`}, {
			`len(input.items) == 2`, `len(input.none) > 0`,
		}, {`len(variables) == 2`, `len(headers) == 2`},
		{`lower("ÆB") == "æb"`, `lower("A") == "A"`}, {
			`upper(variables.tier) == "GOLD"`, `upper("a") == "a"`,
		}, {`trim(" a ") == "a"`, `trim(" a ") == " a "`},
		{`number(headers["X-Priority"]) > 5`, `number("1e3") == 100`},
		{`number(input.total) == 120.5`, ``},
		{`all(input.items, .price > 10)`, `all(input.items, .price > 100)`},
		{`any(input.items, #.price > 100)`, `any(input.items, .price > 200)`},
		{`none(input.items, .price > 200)`, `none(input.items, .price > 100)`}, {
			`one(input.items, .price > 100)`, `one(input.items, .price > 10)`,
		}, {`all(input.none, false)`, `any(input.none, true)`},
		{`count(input.items, .price > 10) == 2`, `count(input.items, .price > 100) == 2`},
		{`len(filter(input.items, .price > 100)) == 1`, `filter(input.tags, false) != []`},
		{`find(input.items, .price > 10).sku == "x-1"`, `find(input.items, .price > 900) != nil`},
		{`map(input.items, .price) == [30, 150]`, `map(input.items, .sku) == []`},
		{`sum(input.items, .price) == 180`, `sum(map(input.items, .price)) > 180`},
		{`sum(input.none) == 0`, `sum([0.1, 0.2]) != 0.3`},
		{
			`any(input.items, any(input.tags, # == "new") and .price == 30)`,
			`any(input.items, any(input.tags, # == "x"))`,
		},
		{`input.items == input.items`, `input.items == input.tags`}, {
			`results.validate == results.validate`, `results.validate == results["fraud-check"]`,
		}, {`[1, [2, "x"]] == [1.0, [2.0, "x"]]`, `[1, 2] == [1, 3]`},
		{`results == results`, `results.validate == input.big`}, {
			`input.pair[0] != input.pair[1]`, `input.pair[1] == input.pair[0]`,
		}, {`headers == headers`, `headers == input.big`},
		{`input.total == input.total // who knows`, "/* no */ false"}, {"true\n&&\ntrue", ``},
		{
			`"Ærla" == input.name && 120.50 == input.total`,
			`"🂡" == input.name || 120.25 == input.total`,
		},
	})
}

// spec: F-16
func TestKeysThatAreNoNames(t *testing.T) {
	decideAll(t, [][2]string{
		{`results["fraud-check"].risk == "low"`, `results["fraud-check"]["risk"] == "high"`},
		{`results.übergabe == 1`, `results["übergabe"] == 2`},
		{`results["1"]`, `!results["1"]`}, {`results[""] == "empty"`, `"x" in results`},
		{`input["a-b"] == 1`, `headers["X-" + "Tenant"] == ""`},
		{`results["re" + "serve"] == "hold-7"`, `input[variables.tier] == 1`}, {
			`input.tags[0] == "new"`, `input.tags[1] == "new"`,
		}, {`input.tags[-1] == "gift"`, `input.tags[-2] == "gift"`},
		{`input.items[len(input.items) - 1].sku == "y-2"`, `input["items"][0]["sku"] == "y-2"`},
	})
}

// A missing value is nil, which equals only nil and supports no other operation.
//
// spec: F-16
func TestWhatIsNotThereIsNil(t *testing.T) {
	decideAll(t, [][2]string{
		{`input.gone == nil`, `input.gone != nil`}, {`input.note == nil`, `input.total == nil`}, {
			`results.ship == nil`, `results.validate == nil`,
		}, {`input.gone == input.gone2`, `input.gone == ""`},
		{`input.gone != 0`, `input.gone == false`}, {
			`input.tags[2] == nil`, `input.tags[-3] != nil`,
		}, {`results.ship?.ok == nil`, `results.ship?.ok == true`},
		{`results.ship?.a.b?.["c"] == nil`, `results.validate?.ok != true`}, {
			`results.ship?.["a"] == nil`, ``,
		}, {`(results.ship?.ok ?? false) == false`, `results.ship?.ok ?? false`},
		{`results.nothing == nil`, `"nothing" not in results`}, {
			`headers["X-Gone"] == ""`, `headers["X-Gone"] != ""`,
		}, {`headers.note == ""`, `"X-Gone" in headers`}, {`headers[variables.tier] == ""`, ``},
	})
	for _, text := range []string{
		`input == nil`, `results.x == nil && len(results) == 0`,
		`variables.x == nil && variables == results`, `headers.x == "" && len(headers) == 0`,
	} {
		if holds, err := decide(t, text, pattern.View{}); err != nil || !holds {
			t.Errorf("%s of nothing: %v, %v", text, holds, err)
		}
	}
}

// spec: F-16
func TestNumbersAreExact(t *testing.T) {
	decideAll(t, [][2]string{
		{`input.big.id == 9007199254740993`, `input.big.id == 9007199254740992`},
		{`input.big.id == 9007199254740993.0`, `input.big.id == 9007199254740992.0`},
		{`input.big.id > 9007199254740992.0`, `input.big.id < 9007199254740992.5`}, {
			`input.big.id in [9007199254740993]`,
			`input.big.id in [9007199254740992, 9007199254740994]`,
		},
		{`input.big.id + 1 == 9007199254740994`, `input.big.id * 2 == 18014398509481984`}, {
			`0.1 + 0.2 == 0.3`, `0.1 + 0.2 != 0.3`,
		}, {`1 / 3 * 3 == 1`, `1 / 3 == 0.3333333333333333`},
		{`9223372036854775807 + 1 > 0`, `9223372036854775807 + 1 < 0`}, {
			`1_000.5 == 1000.5`, `0x10 == 10`,
		}, {`010.5 == 10.5`, `1E-2 != 0.01`}, {`1e3 == 1000`, `.5 == 5`},
		{`number("18446744073709551615") == 18446744073709551615.0`, ``},
	})
	for text, want := range map[string]bool{
		`input == number("18446744073709551615")`: true,
		`input == number("18446744073709551614")`: false, `input == -1`: false, `input > 0`: true,
		`input == 18446744073709551616.0`: false,
	} {
		if holds, err := decide(t, text, pattern.View{
			Input: json.RawMessage(`18446744073709551615`),
		}); err != nil || holds != want {
			t.Errorf("%s: %v, %v", text, holds, err)
		}
	}
	// The same number has many forms in JSON.
	for _, form := range []string{"100", "100.0", "1e2", "1E+2", "10000e-2"} {
		if holds, err := decide(t, `input == 100 && input in [100] && [input] == [100]`,
			pattern.View{Input: json.RawMessage(form)}); err != nil || !holds {
			t.Errorf("%s: %v, %v", form, holds, err)
		}
	}
	two := json.RawMessage(
		`[340282366920938463463374607431768211455, 340282366920938463463374607431768211456, 0.30000000000000000001, 0.3]`)
	if holds, err := decide(t, `input[0] != input[1] && input[2] != input[3] && input[2] > 0.3`,
		pattern.View{Input: two}); err != nil || !holds {
		t.Errorf("long neighbours: %v, %v", holds, err)
	}
}

// saysInvalid checks an error of the package: its message, its code and that it is one line.
func saysInvalid(t *testing.T, text string, err error, want string) {
	t.Helper()
	switch {
	case err == nil || err.Error() != "perdure: condition: "+want:
		t.Errorf("%q:\n got %v\nwant perdure: condition: %s", text, err, want)
	case !errors.Is(err, &perdure.Error{Code: journal.CodeInvalid}):
		t.Errorf("%s: %v has code %s", text, err, journal.CodeOf(err))
	case strings.ContainsAny(err.Error(), "\r\n\x00"):
		t.Errorf("%q: the message is not one line: %q", text, err)
	}
}

// spec: F-16
func TestBadTextsAreRefused(t *testing.T) {
	const alien = "this is not in the language of conditions"
	for text, want := range map[string]string{
		"":                          `unexpected token EOF at 1:1 in: ▸`,
		`input.total >`:             `unexpected token EOF at 1:13 in: input.total ▸>`,
		`input.total = 1`:           `unexpected token Operator("=") at 1:13 in: input.total ▸= 1`,
		`"Æ🂡" == "" || totl > 3`:    `unknown name totl: allowed are input, results, variables and headers at 1:15 in: "Æ🂡" == "" || ▸totl > 3`,
		"true &&\n totl > 3":        `unknown name totl: allowed are input, results, variables and headers at 2:2 in: true &&  ▸totl > 3`,
		`results.fraud-check`:       `unknown name check: allowed are input, results, variables and headers at 1:15 in: results.fraud-▸check`,
		`number`:                    `unknown name number: allowed are input, results, variables and headers at 1:1 in: ▸number`,
		`$env["input"] == 1`:        `unknown name $env: allowed are input, results, variables and headers at 1:1 in: ▸$env["input"] == 1`,
		`input.x.y == $env`:         `unknown name $env: allowed are input, results, variables and headers at 1:14 in: input.x.y == ▸$env`,
		`1 + 1`:                     `expected bool, but got int in: 1 + 1`,
		`"true"`:                    `expected bool, but got string in: "true"`,
		`nil`:                       `expected bool, but got unknown in: nil`,
		`results`:                   `expected bool, but got map[string]interface {} in: results`,
		`headers.x`:                 `expected bool, but got string in: headers.x`,
		`input.x ? 1 : 2`:           `expected bool, but got int in: input.x ? 1 : 2`,
		`1 == "1"`:                  `invalid operation: == (mismatched types int and string) at 1:3 in: 1 ▸== "1"`,
		`headers.x > 5`:             `invalid operation: > (mismatched types string and int) at 1:11 in: headers.x ▸> 5`,
		`!1`:                        `invalid operation: ! (mismatched type int) at 1:1 in: ▸!1`,
		`headers.x == nil`:          `a header that is not there is an empty string, never nil at 1:11 in: headers.x ▸== nil`,
		`nil != headers["x"]`:       `a header that is not there is an empty string, never nil at 1:5 in: nil ▸!= headers["x"]`,
		`(headers.x ?? "a") == ""`:  `a header that is not there is an empty string, never nil at 1:12 in: (headers.x ▸?? "a") == ""`,
		`now() > input.t`:           `unknown function now at 1:1 in: ▸now() > input.t`,
		`input.total()`:             alien + ` at 1:7 in: input.▸total()`,
		`input["f"](1)`:             `unexpected token Bracket("(") at 1:11 in: input["f"]▸(1)`,
		`exec("rm")`:                `unknown function exec at 1:1 in: ▸exec("rm")`,
		`input.x matches headers.p`: `matches needs a pattern in quotes at 1:9 in: input.x ▸matches headers.p`,
		`input.x matches "("`: "error parsing regexp: missing closing ): `(` at 1:9 in: " +
			"input.x ▸matches \"(\"",
		`len() == 1`:                   `len takes one value, and there are 0 at 1:1 in: ▸len() == 1`,
		`len(1, 2) == 1`:               `len takes one value, and there are 2 at 1:1 in: ▸len(1, 2) == 1`,
		`number() == 1`:                `number takes one value, and there are 0 at 1:1 in: ▸number() == 1`,
		`count(input.x) == 1`:          `count takes an array and a predicate, as in count(input.items, .price > 100) at 1:1 in: ▸count(input.x) == 1`,
		`all("abc", true)`:             `builtin all takes only array (got string) at 1:5 in: all(▸"abc", true)`,
		`all(input.x, 1)`:              `predicate should return boolean (got int) at 1:14 in: all(input.x, ▸1)`,
		`all(input.x, #index > 1)`:     alien + ` at 1:14 in: all(input.x, ▸#index > 1)`,
		`.price > 1`:                   `unexpected token Operator(".") at 1:1 in: ▸.price > 1`,
		`let x = 1; x > 0`:             alien + ` at 1:5 in: let ▸x = 1; x > 0`,
		`true; true`:                   alien + ` at 1:1 in: ▸true; true`,
		`{"a": 1} == input`:            alien + ` at 1:1 in: ▸{"a": 1} == input`,
		`input.x[1:2] == "a"`:          alien + ` at 1:8 in: input.x▸[1:2] == "a"`,
		`b"x" == input`:                alien + ` at 1:1 in: ▸b"x" == input`,
		`1 in 1..3`:                    alien + ` at 1:7 in: 1 in 1▸..3`,
		`2 ** 3 == 8`:                  alien + ` at 1:3 in: 2 ▸** 3 == 8`,
		`+1 == 1`:                      alien + ` at 1:1 in: ▸+1 == 1`,
		`if true { true } else {true}`: `unexpected token Identifier("true") at 1:4 in: if ▸true { true } else {true}`,
		`18446744073709551615 > 1`:     `invalid integer literal: strconv.ParseInt: parsing "18446744073709551615": value out of range at 1:22 in: 18446744073709551615 ▸> 1`,
		`1e399 > 1`:                    `invalid float literal: strconv.ParseFloat: parsing "1e399": value out of range at 1:7 in: 1e399 ▸> 1`,
		`1e-401 > 1`:                   `the exponent of a number is over 400 at 1:1 in: ▸1e-401 > 1`,
		"\xff == 1":                    "it is not UTF-8 in: \ufffd == 1",
		"true \x00":                    `unrecognized character: U+0000 at 1:6 in: true ▸ `,
		strings.Repeat("true && ", 20) + "totl && " + strings.Repeat("true && ", 20) +
			"true": `unknown name totl: allowed are input, results, variables and headers at 1:161 in: …` +
			strings.Repeat("true && ", 5) + "▸totl && " + strings.Repeat("true && ", 4) + "…",
	} {
		c := expr.When(text)
		saysInvalid(t, text, c.Check(), want)
		if _, err := c.Holds(t.Context(), known()); err == nil || err.Error() != c.Check().Error() {
			t.Errorf("%s: Holds gives %v and Check %v", text, err, c.Check())
		}
	}
}

// The clock, the environment and the order of a map are not available.
//
// spec: F-16
func TestNothingOutsideTheDataDecides(t *testing.T) {
	for _, call := range []string{
		`now()`, `date("2026-01-01")`, `duration("1h")`, `timezone("UTC")`, `keys(input)`,
		`values(input)`, `toPairs(input)`, `fromPairs([])`, `groupBy(input.x, #)`,
		`sortBy(input.x, #)`, `sort(input.x)`, `reduce(input.x, #acc)`, `toJSON(input)`,
		`fromJSON("1")`, `toBase64("a")`, `fromBase64("a")`, `repeat("a", 9)`, `string(input)`,
		`int("1")`, `float("1")`,
		`type(input)`, `get(input, "a")`, `findLast(input.x, true)`, `findIndex(input.x, true)`,
		`uniq(input.x)`, `flatten(input.x)`, `concat(input.x)`, `min(1)`, `max(1)`, `abs(1)`,
		`bitand(1, 1)`,
		`split("a", "b")`, `join(input.x)`, `replace("a", "b", "c")`, `first(input.x)`,
		`last(input.x)`, `round(1.5)`, `mean([1])`, `median([1])`, `env("HOME")`, `uuid()`,
		`random()`,
	} {
		for _, text := range []string{
			call + ` == 1`, `input.x == ` + call, `true || ` + call + ` == nil`, `input.x | ` +
				call,
		} {
			if err := expr.When(text).Check(); err == nil {
				t.Errorf("%s is accepted", text)
			}
		}
	}
	c := expr.When(`input.a == input.b && input.a != input.c && len(input.a) == 26`)
	object := func(last int) string {
		var b strings.Builder
		for i := range 25 {
			fmt.Fprintf(&b, `"%c": [%d, {"x": %d.5}], `, 'a'+(i*7)%25, i, i)
		}
		return fmt.Sprintf(`{%s "z": %d}`, b.String(), last)
	}
	k := pattern.View{
		Input: json.RawMessage(fmt.Sprintf(`{"a": %s, "b": %s, "c": %s}`, object(1), object(1),
			object(2))),
	}
	for range 1000 {
		if holds, err := c.Holds(t.Context(), k); err != nil || !holds {
			t.Fatal(holds, err)
		}
	}
}

// A comparison that finds a difference first on one day and last on the next would use up the steps
// on the next day only.
//
// spec: F-16
func TestComparingObjectsTakesTheSameStepsEachTime(t *testing.T) {
	large := `[` + strings.Repeat(strings.Repeat("7", 400)+",", 999) + `0]`
	k := pattern.View{
		Input: json.RawMessage(fmt.Sprintf(`[{"a": 1, "b": %s}, {"a": 2, "b": %s}]`, large, large)),
	}
	c := expr.When(`input[0] == input[1] or input[0] == input[1] or input[0] == input[1]`)
	for range 15 {
		if holds, err := c.Holds(t.Context(), k); err != nil || holds {
			t.Fatal(holds, err)
		}
	}
	if holds, err := decide(t, `input[0].b == input[1].b and input[0].b == input[1].b`,
		k); err == nil || holds {
		t.Errorf("the lists can be compared twice: this proves nothing")
	}
}

// spec: F-16
func TestWhatCannotBeEvaluatedIsAnError(t *testing.T) {
	for text, want := range map[string]string{
		`input.name`:                      `a boolean is needed, and this is a string in: input.name`,
		`input.note`:                      `a boolean is needed, and this is nil in: input.note`,
		`input.gone`:                      `a boolean is needed, and this is nil in: input.gone`,
		`input.items && true`:             `a boolean is needed, and this is an array at 1:7 in: input.▸items && true`,
		`true && input.total`:             `a boolean is needed, and this is a number at 1:15 in: true && input.▸total`,
		`false || results.validate`:       `a boolean is needed, and this is an object at 1:18 in: false || results.▸validate`,
		`!input.gone`:                     `a boolean is needed, and this is nil at 1:8 in: !input.▸gone`,
		`input.total ? true : false`:      `a boolean is needed, and this is a number at 1:7 in: input.▸total ? true : false`,
		`all(input.tags, #)`:              `a boolean is needed, and this is a string at 1:17 in: all(input.tags, ▸#)`,
		`input.gone > 3`:                  `> needs numbers, and this is nil at 1:12 in: input.gone ▸> 3`,
		`3 < input.name`:                  `< needs two numbers or two strings, and these are a number and a string at 1:3 in: 3 ▸< input.name`,
		`input.rush >= true`:              ``,
		`input.gone + 1 == 1`:             `+ needs numbers, and this is nil at 1:12 in: input.gone ▸+ 1 == 1`,
		`input.name + 1 == ""`:            `+ needs two numbers or two strings, and these are a string and a number at 1:12 in: input.name ▸+ 1 == ""`,
		`input.tags * 2 == 1`:             `* needs numbers, and this is an array at 1:12 in: input.tags ▸* 2 == 1`,
		`-input.name == 1`:                `- needs numbers, and this is a string at 1:1 in: ▸-input.name == 1`,
		`1 / (input.total - 120.5) == 1`:  `division by zero at 1:3 in: 1 ▸/ (input.total - 120.5) == 1`,
		`input.total % 2 == 0`:            `% needs whole numbers, the second of them not zero at 1:13 in: input.total ▸% 2 == 0`,
		`1 % len(input.none) == 0`:        `% needs whole numbers, the second of them not zero at 1:3 in: 1 ▸% len(input.none) == 0`,
		`results.ship?.a["c"] == nil`:     `nil has no members at 1:16 in: results.ship?.a▸["c"] == nil`,
		`results.ship.ok`:                 `nil has no members at 1:14 in: results.ship.▸ok`,
		`input.name.x == 1`:               `a string has no members at 1:12 in: input.name.▸x == 1`,
		`input.name[0] == "Æ"`:            `a string has no members at 1:11 in: input.name▸[0] == "Æ"`,
		`input.big.id.String == 1`:        `a number has no members at 1:14 in: input.big.id.▸String == 1`,
		`input[0] == 1`:                   `the key of an object is a string, and this is a number at 1:6 in: input▸[0] == 1`,
		`input.tags.x == 1`:               `the index of an array needs numbers, and this is a string at 1:12 in: input.tags.▸x == 1`,
		`input.tags[input.total] == 1`:    `the index of an array is a whole number at 1:11 in: input.tags▸[input.total] == 1`,
		`1 in input.gone`:                 `in needs an array or an object, and this is nil at 1:3 in: 1 ▸in input.gone`,
		`"r" in input.name`:               `in needs an array or an object, and this is a string at 1:5 in: "r" ▸in input.name`,
		`input.total in results`:          `the key of an object is a string, and this is a number at 1:13 in: input.total ▸in results`,
		`input.gone contains "a"`:         `contains needs two strings, and these are nil and a string at 1:12 in: input.gone ▸contains "a"`,
		`"1" startsWith input.total`:      `startsWith needs two strings, and these are a string and a number at 1:5 in: "1" ▸startsWith input.total`,
		`input.gone matches "a"`:          `matches needs a string, and this is nil at 1:12 in: input.gone ▸matches "a"`,
		`len(input.gone) == 0`:            `len needs a string, an array or an object, and this is nil at 1:1 in: ▸len(input.gone) == 0`,
		`lower(input.gone) == ""`:         `lower needs a string, and this is nil at 1:1 in: ▸lower(input.gone) == ""`,
		`all(input.gone, true)`:           `all needs an array, and this is nil at 1:1 in: ▸all(input.gone, true)`,
		`any(input.name, true)`:           `any needs an array, and this is a string at 1:1 in: ▸any(input.name, true)`,
		`sum(input.mixed) == 1`:           `sum needs numbers, and this is a string at 1:1 in: ▸sum(input.mixed) == 1`,
		`any(input.items, .gone.x)`:       `nil has no members at 1:24 in: any(input.items, .gone.▸x)`,
		`number(variables.tier) == 1`:     `number needs a number in its string, written as in JSON at 1:1 in: ▸number(variables.tier) == 1`,
		`number(" 1") == 1`:               `number needs a number in its string, written as in JSON at 1:1 in: ▸number(" 1") == 1`,
		`number("1/2") == 1`:              `number needs a number in its string, written as in JSON at 1:1 in: ▸number("1/2") == 1`,
		`number("") == 1`:                 `number needs a number in its string, written as in JSON at 1:1 in: ▸number("") == 1`,
		`number("0x10") == 16`:            `number needs a number in its string, written as in JSON at 1:1 in: ▸number("0x10") == 16`,
		`number("1 ") == 1`:               `this is not a number at 1:1 in: ▸number("1 ") == 1`,
		`number(input.note) == 1`:         `number needs numbers, and this is nil at 1:1 in: ▸number(input.note) == 1`,
		`number("1e401") == 1`:            `the exponent of a number is over 400 at 1:1 in: ▸number("1e401") == 1`,
		`number("1e-9999999999999") == 1`: `the exponent of a number is over 400 at 1:1 in: ▸number("1e-9999999999999") == 1`,
	} {
		if want == "" {
			if expr.When(text).Check() == nil {
				t.Errorf("%s is accepted", text)
			}
			continue
		}
		holds, err := decide(t, text, known())
		saysInvalid(t, text, err, want)
		if holds {
			t.Errorf("%s holds, with an error", text)
		}
	}
}

// spec: F-16
func TestDataThatCannotBeReadIsAnError(t *testing.T) {
	for text, want := range map[string]string{
		`input.a`:                `input: unexpected EOF in: input.a`,
		`input == 1`:             `input: unexpected EOF in: input == 1`,
		`results.bad == 1`:       `results: bad: something follows the JSON value in: results.bad == 1`,
		`results.bad2.x == 1`:    `results: bad2: something follows the JSON value in: results.bad2.x == 1`,
		`results.bad3.x == 1`:    `results: bad3: expected colon after object key in: results.bad3.x == 1`,
		`results == variables`:   `results: bad: something follows the JSON value in: results == variables`,
		`variables.deep == 1`:    `variables: deep: invalid character '[' exceeded max depth in: variables.deep == 1`,
		`variables["a\nb"] == 1`: `variables: a b: invalid character 'x' looking for beginning of value in: variables["a\nb"] == 1`,
	} {
		k := pattern.View{
			Input: json.RawMessage(`{"b": [1,`),
			Results: map[string]json.RawMessage{
				"bad":  json.RawMessage(`1 2`),
				"bad2": json.RawMessage(`{"x": 1} 2`),
				"bad3": json.RawMessage(`{"x"}`),
				"bad4": json.RawMessage(`nul`),
			},
			Variables: variables(map[string]json.RawMessage{
				"deep": json.RawMessage(strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)),
				"a\nb": json.RawMessage(`x`),
			}),
		}
		for range 10 { // of several invalid values, always the same one is reported
			_, err := expr.When(text).Holds(t.Context(), k)
			saysInvalid(t, text, err, want)
		}
	}
}

// spec: F-16
func TestOnlyWhatATextNamesIsRead(t *testing.T) {
	megabytes := `"` + strings.Repeat("x", 2<<20) + `"`
	k := pattern.View{
		Input: json.RawMessage("\n " + `{"scan": ` + megabytes +
			`, "total": 5, "of": {"scan": ` + megabytes +
			`, "total": {"net": 4}}, "list": [1, 2], "total2": null}`),
		Results: map[string]json.RawMessage{
			"scan":   json.RawMessage(megabytes),
			"sign":   json.RawMessage(`{"ok": true}`),
			"broken": json.RawMessage(`{`),
		},
		Variables: variables(map[string]json.RawMessage{
			"scan": json.RawMessage(megabytes),
			"tier": json.RawMessage(`"gold"`),
		}),
	}
	for _, text := range []string{
		`input.total == 5 && input.of.total.net == 4 && results.sign.ok && variables.tier == "gold"`,
		`input.of.total.net == 4 && len(input.of.total) == 1 && input.of.total?.net == 4`,
		`len(input.of.total) == 1 && input.of.total.net == 4`,
		`input["list"][1] == 2 && all(input.list, # > 0)`,
		`input.of?.gone == nil && results.gone == nil`, `len(headers) == 0`,
	} {
		if holds, err := decide(t, text, k); err != nil || !holds {
			t.Errorf("%s: %v, %v", text, holds, err)
		}
	}
	const over = `: a condition reads at most 1048576 bytes: name the fields that it needs, or decide in Go in: `
	for text, want := range map[string]string{
		`input.scan == ""`: `input: scan` + over, `len(input) == 1`: `input` + over,
		`input.of == 1`: `input: of` + over, `input.of.scan == 1`: `input: of: scan` + over,
		`len(variables) == 1`: `variables: scan` + over, `results.scan == 1`: `results: scan` +
			over, `input["sc" + "an"] == 1`: `input` + over,
	} {
		_, err := decide(t, text, k)
		saysInvalid(t, text, err, want+text)
	}
	half := json.RawMessage(`"` + strings.Repeat("x", 600<<10) + `"`)
	_, err := decide(t, `input.a != "" && results.a != ""`, pattern.View{
		Input:   json.RawMessage(`{"a":` + string(half) + `}`),
		Results: map[string]json.RawMessage{"a": half},
	})
	saysInvalid(t, "two halves", err, `results: a`+over+`input.a != "" && results.a != ""`)
}

// spec: F-16
func TestManyGoroutinesUseOneCondition(t *testing.T) {
	c := expr.When(
		`all(input.items, any(input.items, # == input.last)) && sum(input.items) == input.sum && input.name matches "^n\\d+$" && results.a?.b == nil`)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 8 { // each is long enough for others to be evaluated in between
				first, n := 1000*g, 40+i
				items := strings.Repeat(fmt.Sprintf("%d,", first), n-1) + fmt.Sprint(first+1)
				k := pattern.View{
					Input: json.RawMessage(
						fmt.Sprintf(`{"name": "n%d", "items": [%s], "last": %d, "sum": %d}`, g,
							items, first+1, first*n+1+i%2)),
				}
				if holds, err := c.Holds(t.Context(), k); err != nil || holds != (i%2 == 0) {
					t.Errorf("%d, %d: %v, %v", g, i, holds, err)
				}
			}
		})
	}
	wg.Wait()
}
