package fakemodel

import "testing"

func TestShell(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ tools, want string }{
		{`[]`, ""},
		{`[["read", {}], ["bash", {}], ["Bash", {}]]`, `Bash {"command":"ls"}`},
		{`[["read", {}], ["run", {"properties": {"cmd": {"type": "ARRAY"}}}]]`, `run {"cmd":["sh","-c","ls"]}`},
		{`[["Bash", {"properties": {"command": {}, "cmd": {}}}]]`, `Bash {"command":"ls"}`},
		{`[["Bash", {"properties": {"other": {}}}]]`, `Bash {}`},
		{`[["Bash", {"properties": {"command": {}, "why": {"type": "string"}, "n": {"type": "integer"}},
			"required": ["command", "why", "n", "lost", 7]}]]`,
			`Bash {"command":"ls","lost":"fake lost","n":1,"why":"fake why"}`},
		{`[["Bash", {"properties": 5, "required": "command"}], ["", {"properties": {"cmd": {}}}], ["Bash", 1]]`,
			`Bash {"command":"ls"}`},
	} {
		var tools toolset
		v, err := decode([]byte(test.tools))
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range asList(v) {
			pair := asList(tool)
			tools.add(asText(pair[0]), pair[1])
		}
		got := tools.shell()
		if got != "" {
			got += " " + encode(shellInput(tools.schemas[got], "ls"))
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.tools, got, test.want)
		}
	}
}

func TestFindTool(t *testing.T) {
	t.Parallel()
	var tools toolset
	for _, name := range []string{"banknote", "mcp__c__note", "c.ask", "note"} {
		tools.add(name, nil)
	}
	for name, want := range map[string]string{
		"note": "mcp__c__note", "ask": "c.ask", "c.ask": "c.ask", "banknote": "banknote", "not": "", "k": "",
	} {
		if got := tools.find(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestInstance(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{}`:                                `"fake k"`,
		`5`:                                 `"x"`,
		`true`:                              `"x"`,
		`{"type": "string"}`:                `"fake k"`,
		`{"type": "STRING"}`:                `"fake k"`,
		`{"type": ["integer", "null"]}`:     `1`,
		`{"type": []}`:                      `"fake k"`,
		`{"type": "number"}`:                `1`,
		`{"type": "boolean"}`:               `false`,
		`{"type": "null"}`:                  `null`,
		`{"type": "array", "items": {}}`:    `[]`,
		`{"type": "unheard of"}`:            `"fake k"`,
		`{"enum": ["a", "user"]}`:           `"user"`,
		`{"enum": [[1], "a"]}`:              `[1]`,
		`{"enum": []}`:                      `"fake k"`,
		`{"const": null}`:                   `null`,
		`{"const": 12345678901234567890}`:   `12345678901234567890`,
		`{"anyOf": [{"type": "boolean"}]}`:  `false`,
		`{"oneOf": [{"type": "integer"}]}`:  `1`,
		`{"anyOf": []}`:                     `"fake k"`,
		`{"type": "object"}`:                `{}`,
		`{"properties": {"a": {}, "b": 1}}`: `{"a":"fake a","b":"x"}`,
		`{"type": "OBJECT", "properties": {"o": {"type": "object", "properties": {"i": {"type": "integer"}}}}}`: `{"o":{"i":1}}`,
	} {
		v, err := decode([]byte(schema))
		if err != nil {
			t.Fatal(err)
		}
		if got := encode(instance(v, "k")); got != want {
			t.Errorf("%s: %s, want %s", schema, got, want)
		}
	}
}
