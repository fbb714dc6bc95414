package expr_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure/expr"
)

// nested replaces %s in text by text itself, that many times.
func nested(times int, text, innermost string) string {
	for range times {
		innermost = strings.ReplaceAll(text, "%s", innermost)
	}
	return innermost
}

// Each of these would take all memory, or run for ever.
//
// spec: F-16
func TestHostileTextsAreRefusedSoon(t *testing.T) {
	const parts, deep, alien = "it has more than 1000 parts", "it is nested more than 200 deep",
		"this is not in the language of conditions"
	for name, c := range map[string]struct{ text, want string }{
		"a long text": {
			strings.Repeat(" ", 4093) + "true", "it has 4097 bytes, at most 4096",
		},
		"many parts":         {"1 in [" + strings.Repeat("1,", 997) + "1]", parts},
		"a chain in a chain": {nested(25, "1 < (%s ? 1 : 2) < 3", "input.x"), parts},
		"minus of minus":     {strings.Repeat("-", 4000) + "1 > 0", deep},
		"not not":            {strings.Repeat("!", 4000) + "true", deep},
		"arrays in arrays": {strings.Repeat("[", 2000) + strings.Repeat("]", 2000) +
			" == 1", deep},
		"closures in closures":      {nested(250, "all(input, %s)", "true"), deep},
		"members of members":        {"input" + strings.Repeat(".a", 2000), deep},
		"conditions in conditions":  {nested(250, "true ? %s : true", "true"), deep},
		"open brackets":             {strings.Repeat("(", 4096), "unexpected token EOF"},
		"open arrays":               {strings.Repeat("[", 4096), "unexpected token EOF"},
		"open closures":             {strings.Repeat("all(", 1024), "unexpected token EOF"},
		"a billion elements":        {"len(1..1000000000) > 0", alien},
		"a billion elements at all": {"all(1..1000000000, true)", alien},
		"a huge power":              {"2 ** 1000000000 > 1", alien},
		"repetition":                {`repeat("a", 1000000000) == ""`, "unknown function repeat"},
		"a large pattern": {`input matches "` + strings.Repeat("a", 999) +
			`"`, "the pattern compiles to 1001 instructions, at most 1000"},
		"a larger pattern": {`input matches "` + strings.Repeat("((a{10}){10}){10}", 200) +
			`"`, "the pattern compiles to 244002 instructions, at most 1000"},
		"a pattern too large": {
			`input matches "(a{1000}){1000}"`, "error parsing regexp: invalid repeat count",
		},
		"a pattern that comes": {`input matches input`, "matches needs a pattern in quotes"},
	} {
		if err := expr.When(c.text).Check(); err == nil || !strings.HasPrefix(err.Error(),
			"perdure: condition: "+c.want) || len(err.Error()) > 400 {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"long enough": strings.Repeat(" ", 4092) + "true", "many parts": "1 in [" +
			strings.Repeat("1,", 996) + "1]", "a large pattern": `input.zip matches "` +
			strings.Repeat("a?", 498) + `"`, "brackets": strings.Repeat("(", 2046) + "true" +
			strings.Repeat(")", 2046),
	} {
		if holds, err := decide(t, text, known()); err != nil || !holds {
			t.Errorf("%s: %v, %v", name, holds, err)
		}
	}
}

// spec: F-16
func TestHostileDataIsGivenUpSoon(t *testing.T) {
	list := func(of string, n int) string { return "[" + strings.Repeat(of+",", n-1) + of + "]" }
	keys := func(prefix string) string {
		var b strings.Builder
		for i := range 2000 {
			fmt.Fprintf(&b, `"%s%d": 1, `, prefix, i)
		}
		return "{" + b.String() + `"last": 1}`
	}
	k := pattern.View{Input: json.RawMessage(
		fmt.Sprintf(
			`{"many": %s, "some": %s, "long": "%s", "tiny": %s, "digits": %s, "deep": %s, "strings": %s, "one": 1e401, "two": %s, "keys": %s, "others": %s}`,
			list("0", 100_000), list("0", 1000), strings.Repeat("ab", 100_000),
			list("3e-400", 30_000),
			list(strings.Repeat("7", 400), 1000),
			strings.Repeat(`{"a":`, 9000)+"1"+strings.Repeat("}", 9000), list(`"`+
				strings.Repeat("a", 80)+`"`, 5000), strings.Repeat("7", 401), keys("a"),
			keys("b")))}
	const steps = "it takes more than 200000 steps"
	for text, want := range map[string]string{
		`all(input.many, all(input.many, true))`:                                             steps,
		nested(40, `none(input.many, %s)`, `input.many == 1`):                                steps,
		`count(input.many, any(input.many, # == 1)) == 1`:                                    steps,
		`map(input.many, input.many) == [] || sum(input.many, sum(input.many)) == 1`:         steps,
		`input.many == input.many && input.many == input.many && input.many == input.many`:   steps,
		`1 in input.many || 1 in input.many || 1 in input.many`:                              steps,
		`none(input.some, input.long contains "c")`:                                          steps,
		`all(input.some, input.long == input.long)`:                                          steps,
		`all(input.some, input.long <= input.long)`:                                          steps,
		`all(input.some, len(input.long) > 1)`:                                               steps,
		`all(input.some, upper(input.long) > "")`:                                            steps,
		`all(input.some, input.long + "c" > "")`:                                             steps,
		`input.long matches "^(a|b|ab){3,90}c$"`:                                             steps,
		`none(input.strings, # matches "^(a|b|ab){3,90}c$")`:                                 steps,
		`all(input.some, input.deep == input.deep)`:                                          steps,
		`all(input.some, input.keys != input.others)`:                                        steps,
		`sum(input.tiny) == sum(input.tiny)`:                                                 steps,
		`sum(input.digits, # * # * #) == sum(input.digits)`:                                  steps,
		`sum(input.digits, # / (# + 1)) == 1`:                                                steps,
		nested(40, "map(%s, [#, #])", "[1]") + " == " + nested(40, "map(%s, [#, #])", "[1]"): steps,
		nested(40, "map(%s, # + #)", `["aaaaaaaa"]`) +
			`[0] == ""`: "a string has more than 1048576 bytes",
		nested(40, "map(%s, # * #)", `[3.3]`) +
			`[0] == 1`: "a number has more than 4096 bits",
		`sum(map(input.many, 1 / 3), # / 7) < sum(input.tiny, 1 / (# + sum(input.tiny)))`: steps,
		`input.one > 1`: "the exponent of a number is over 400",
		`input.two > 1`: "a number has more than 400 digits",
	} {
		holds, err := decide(t, text, k)
		if holds || err == nil || !strings.HasPrefix(err.Error(), "perdure: condition: "+want) {
			t.Errorf("%s: %v, %v", text, holds, err)
		}
	}
	for _, text := range []string{
		`all(input.strings, # != input.long)`, `input.deep == input.deep`,
		`len(input.long) == 200000`, `sum(input.digits) > 1`,
		`count(input.strings, # startsWith "aa") == 5000`,
		`input.long matches "b$"`, `input.digits[0] in input.digits`, `input.keys != input.others`,
		`input.many == input.many`,
	} {
		if holds, err := decide(t, text, k); err != nil || !holds {
			t.Errorf("%s: %v, %v", text, holds, err)
		}
	}
}

// spec: F-16
func TestTheLastStepIsAllowed(t *testing.T) {
	// in, 1, input.x in three parts, and the elements
	for elements, want := range map[int]bool{199_995: true, 199_996: false} {
		k := pattern.View{
			Input: json.RawMessage(`{"x": [` + strings.Repeat("0,", elements-1) + `1]}`),
		}
		if holds, err := decide(t, `1 in input.x`, k); holds != want || (err == nil) != want {
			t.Errorf("%d elements: %v, %v", elements, holds, err)
		}
	}
}
