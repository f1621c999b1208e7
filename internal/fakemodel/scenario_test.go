package fakemodel

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestParseScenario(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"normal":                           "normal",
		"normal=2":                         "normal=2",
		"auth,normal":                      "auth|normal",
		"hang*2,hangmid":                   "hang|hang|hangmid",
		"tool=a, b,c":                      "tool=a, b,c",
		"tool=echo a*b,loop":               "tool=echo a*b|loop",
		"tool=a,b*3,normal":                "tool=a,b|tool=a,b|tool=a,b|normal",
		"tool=a,normally":                  "tool=a,normally",
		"tool=a,normal*2":                  "tool=a|normal|normal",
		"json=auth=1":                      "json=auth=1",
		"json=":                            "json",
		`call=note:{"a":1,"b":[1,2]},auth`: `call=note:{"a":1,"b":[1,2]}|auth`,
		"call=note":                        "call=note",
		"ratelimit=0.5,quota=60,slow=0":    "ratelimit=0.5|quota=60|slow=0",
	} {
		steps, err := parseScenario(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var all []string
		for _, s := range steps {
			for range s.times {
				all = append(all, s.String())
			}
		}
		if got := strings.Join(all, "|"); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
		for n := range len(all) + 2 {
			if got, want := steps.at(n).String(), all[min(n, len(all)-1)]; got != want {
				t.Errorf("%s: request %d gets %s, want %s", text, n, got, want)
			}
		}
	}
}

func TestWrongScenarios(t *testing.T) {
	t.Parallel()
	one := "expected one of " + strings.Join(stepNames(), ", ")
	for text, want := range map[string]string{
		"":                 `parsing scenario "": unknown step "", ` + one,
		"nope":             `unknown step "nope", ` + one,
		"normal,nope":      `unknown step "normal,nope", ` + one,
		"normal,":          `unknown step "normal,", ` + one,
		"@":                `unknown step "@", ` + one,
		"normal=x":         `step "normal=x": expected a number from 0 to 1000000`,
		"normal=-1":        "expected a number from 0 to 1000000",
		"normal=NaN":       "expected a number from 0 to 1000000",
		"normal=1e7":       "expected a number from 0 to 1000000",
		"slow=0.5":         "expected a whole number from 0 to 3600",
		"slow=3601":        "expected a number from 0 to 3600",
		"quota=1.5":        "expected a whole number from 0 to 1000000000",
		"ratelimit=a":      "expected a number from 0 to 1000000000",
		"auth*0":           `step "auth*0": expected STEP*N with N from 1 to 1000000`,
		"auth*99999999999": "expected STEP*N with N from 1 to 1000000",
		"auth=x":           `step "auth=x": expected no argument`,
		"call":             "expected call=NAME:JSON",
		"call=:{}":         "expected call=NAME:JSON",
		"call=note:[1]":    "expected call=NAME:JSON, where JSON is an object",
		"call=note:{":      "expected call=NAME:JSON, where JSON is an object",
		"call=note:{} {}":  "expected call=NAME:JSON, where JSON is an object",
	} {
		steps, err := parseScenario(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %s", text, steps, err, want)
		}
	}
}

// The documentation of the package has each step.
func TestStepsAreDocumented(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("fakemodel.go")
	if err != nil {
		t.Fatal(err)
	}
	doc, _, _ := strings.Cut(string(source), "\npackage ")
	for _, name := range stepNames() {
		if !strings.Contains(doc, "//\t"+name+" ") && !strings.Contains(doc, "//\t"+name+"[") &&
			!strings.Contains(doc, "//\t"+name+"=") {
			t.Errorf("%s is not documented", name)
		}
	}
}

func FuzzScenario(f *testing.F) {
	for _, name := range stepNames() {
		f.Add(name + "*2,normal")
	}
	f.Add(`call=note:{"a":[1,{}]},tool=a,b*3,slow=1`)
	f.Fuzz(func(t *testing.T, text string) {
		steps, err := parseScenario(text)
		if err != nil {
			return
		}
		var parts []string
		for i, s := range steps {
			part := s.String()
			if s.times > 1 || i%2 == 0 || strings.Contains(part, "*") {
				part += fmt.Sprintf("*%d", s.times)
			}
			parts = append(parts, part)
		}
		again, err := parseScenario(strings.Join(parts, ","))
		if err != nil || len(again) != len(steps) {
			t.Fatalf("%q is %d steps, but %q is %v, %v", text, len(steps), parts, again, err)
		}
		for i := range steps {
			if steps[i].String() != again[i].String() || steps[i].times != again[i].times {
				t.Errorf("%q: step %d is %v, then %v", text, i, steps[i], again[i])
			}
		}
	})
}
