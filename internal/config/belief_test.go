package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/config/configtest"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
	jsonvalue "github.com/coppice-dev/coppice/internal/value"
)

func TestBeliefs(t *testing.T) {
	_, err := Parse("/p/f.toml", []byte(base+`
[agent.beliefs]
threshold = 100
hex = 0xff
big = 9_007_199_254_740_993
ratio = -0.50
note = "ü <\u0001>"
on = true
tags = ["a", 1, [2.5, {b = "c"}]]
check_count = { type = "int", initial = 0, persistent = true }
seen = { type = "list", persistent = true }
settings = { initial = { a = {}, "b c" = 1 } }
anything = { type = "any" }
x.y.type = "string"

[persistence]
backend = "sqlite"
path = ".sage/db_guardian.db"
`))
	if err == nil || !strings.Contains(err.Error(), `unknown key "y" in [agent.beliefs]`) {
		t.Fatalf("a dotted name: %v", err)
	}
	tree, err := Parse("/p/f.toml", []byte(base+`
beliefs.threshold = 100
beliefs.hex = 0xff
beliefs.big = 9_007_199_254_740_993
beliefs.ratio = -0.50
beliefs.note = "ü <\u0001>"
beliefs.on = true
beliefs.tags = ["a", 1, [2.5, {b = "c"}]]
beliefs."x.y" = "z"
[agent.beliefs.check_count]
type = "int"
initial = 0
persistent = true
[agent.beliefs.seen]
type = "list"
persistent = true
[agent.beliefs.settings]
initial = { a = {}, "b c" = 1 }
[agent.beliefs.anything]
type = "any"

[persistence]
path = ".sage/db_guardian.db"
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []spec.Belief{
		{Name: "threshold", Type: jsonvalue.Int, Initial: "100"},
		{Name: "hex", Type: jsonvalue.Int, Initial: "255"},
		{Name: "big", Type: jsonvalue.Int, Initial: "9007199254740993"},
		{Name: "ratio", Type: jsonvalue.Float, Initial: "-0.50"},
		{Name: "note", Type: jsonvalue.String, Initial: `"ü <\u0001>"`},
		{Name: "on", Type: jsonvalue.Bool, Initial: "true"},
		{Name: "tags", Type: jsonvalue.List, Initial: `["a",1,[2.5,{"b":"c"}]]`},
		{Name: "x.y", Type: jsonvalue.String, Initial: `"z"`},
		{Name: "check_count", Type: jsonvalue.Int, Initial: "0", Persistent: true},
		{Name: "seen", Type: jsonvalue.List, Persistent: true},
		{Name: "settings", Type: jsonvalue.Map, Initial: `{"a":{},"b c":1}`},
		{Name: "anything", Type: jsonvalue.Any},
	}
	if diff := cmp.Diff(want, tree.Root.Children[0].Agent.Beliefs); diff != "" {
		t.Error(diff)
	}
	if want := (spec.Persistence{Path: "/p/.sage/db_guardian.db"}); tree.Persistence != want {
		t.Errorf("persistence %+v, want %+v", tree.Persistence, want)
	}
	plain, err := Parse("/p/f.toml", []byte(base))
	if err != nil || plain.Root.Children[0].Agent.DeclaredHash().Sum != tree.Root.Children[0].Agent.DeclaredHash().Sum {
		t.Errorf("beliefs belong to what a running agent cannot change; %v", err)
	}
}

func TestBadBeliefs(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"no table", base + "beliefs = [1]\n", "4:11: beliefs is an array, expected a table of beliefs"},
		{"bad initial", base + `beliefs = { n = { type = "int", initial = "0" } }`, `4:43: initial of "n" is string "0", expected a value of type int`},
		{"float for int", base + `beliefs = { n = { type = "int", initial = 1.0 } }`, `4:43: initial of "n" is float 1.0, expected a value of type int`},
		{"type", base + `beliefs = { n = { type = "integer" } }`, `4:26: type is "integer", expected one of any, bool, int, float, string, list, map`},
		{"near type", base + `beliefs = { n = { type = "sting" } }`, `4:26: type is "sting", expected one of any, bool, int, float, string, list, map; did you mean "string"?`},
		{"key", base + `beliefs = { n = { type = "int", persist = true } }`, `4:33: unknown key "persist" in [agent.beliefs]; did you mean "persistent"?`},
		{"nothing said", base + `beliefs = { n = { persistent = true } }`, `4:17: the belief n has neither type nor initial, expected at least one; write type = "any" if it may be anything`},
		{"name", base + `beliefs = { "a b" = 1 }`, `4:21: "a b" cannot name a belief, expected letters, digits, _, - and ., with a letter or _ in front`},
		{"empty name", base + `beliefs = { "" = 1 }`, `4:18: the name of a belief is missing`},
		{"long name", base + "beliefs = { " + strings.Repeat("n", 129) + " = 1 }", `4:145: the name "` + strings.Repeat("n", 60) + `"... has 129 bytes, expected at most 128`},
		{"date", base + `beliefs = { n = 1979-05-27 }`, `4:17: n is a date or time, which JSON cannot express; write it as a string`},
		{"infinite", base + `beliefs = { n = [inf] }`, `4:18: an element of n is inf, which JSON cannot express, expected a number`},
		{"too many", base + "[agent.beliefs]\n" + configtest.Variables(1001), "1005:1: a table of more than 1000 keys, expected at most that"},
		{"too large", base + `beliefs = { n = "` + strings.Repeat("x", 600<<10) + `" }`, `4:17: n cannot be kept: a value has 614402 bytes, at most 524288 are allowed; keep it in a file and its path in the belief`},
		{"backend", base + "[persistence]\nbackend = \"postgres\"\n", `5:11: backend is "postgres", expected one of sqlite, memory`},
		{"near backend", base + "[persistence]\nbackend = \"sqlite3\"\n", `5:11: backend is "sqlite3", expected one of sqlite, memory; did you mean "sqlite"?`},
		{"path of memory", base + "[persistence]\nbackend = \"memory\"\npath = \"x.db\"\n", `6:8: path is "x.db", expected none where the backend is memory; remove it, or write backend = "sqlite"`},
		{"sqlite's memory", base + "[persistence]\npath = \":memory:\"\n", `5:8: path is ":memory:", expected the name of a file; for a state that ends with the daemon write backend = "memory"`},
		{"directory", base + "[persistence]\npath = \"x/\"\n", `5:8: path is "x/", expected the name of a file`},
	} {
		_, err := Parse("f.toml", []byte(tt.text))
		var errs toml.Errors
		if !errors.As(err, &errs) || len(errs) != 1 || strings.TrimPrefix(errs[0].Error(), "f.toml:") != tt.want {
			t.Errorf("%s:\n got %.400v\nwant f.toml:%s", tt.name, err, tt.want)
		}
	}
}
