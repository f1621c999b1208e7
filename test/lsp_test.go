package test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The VS Code language client, which shares no code with ours, works.
func TestLSPWithEditorClient(t *testing.T) {
	t.Parallel()
	modules, script := nodeClient(t, "lspclient")
	dir := t.TempDir()
	const main = "mod lib;\nuse lib::twice;\n\nagent A {\n    on start {\n        print(\"🌲é{twice(2)}\");\n        yield(0);\n    }\n}\n\nrun A;\n"
	const lib = "// Doubles.\npub fn twice(n: Int) -> Int {\n    return n * 2;\n}\n"
	for name, text := range map[string]string{"grove.toml": "[project]\nname = \"p\"\n", "src/main.sg": main, "src/lib.sg": lib} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mainURI, libURI := "file://"+dir+"/src/main.sg", "file://"+dir+"/src/lib.sg"
	type step map[string]any
	steps := []struct {
		step step
		want string // in the answer, as JSON
	}{
		{step{"open": mainURI, "text": main}, "null"},
		{step{"open": libURI, "text": lib}, "null"},
		{step{"diagnostics": mainURI, "count": 0}, "[]"},
		{step{"edit": mainURI, "find": "twice(2", "with": "twice('🌲'"}, "null"},
		{step{"diagnostics": mainURI, "count": 1}, "'🌲': expected `Int`, found `String`"},
		{step{"edit": mainURI, "find": "'🌲'", "with": "3"}, "null"},
		{step{"diagnostics": mainURI, "count": 0}, "[]"},
		{step{"ask": "textDocument/hover", "uri": mainURI, "find": "🌲é{tw"}, "fn twice(n: Int) -\\u003e Int\\n```\\n\\nDoubles."},
		{step{"ask": "textDocument/definition", "uri": mainURI, "find": "🌲é{tw"}, `"line":1`},
		{step{"ask": "textDocument/references", "uri": libURI, "find": "fn tw", "params": step{"context": step{"includeDeclaration": true}}}, libURI},
		{step{"ask": "textDocument/completion", "uri": mainURI, "find": "use lib::"}, `"label":"twice"`},
		{step{"ask": "textDocument/documentSymbol", "uri": mainURI}, `"name":"on start"`},
		{step{"apply": "textDocument/rename", "uri": mainURI, "find": "🌲é{tw", "params": step{"newName": "double"}}, "print(\\\"🌲é{double(3)}\\\");"},
		{step{"ask": "textDocument/rename", "uri": mainURI, "find": "🌲é{tw", "params": step{"newName": "A"}}, "error: `A` cannot be used"},
		{step{"edit": mainURI, "find": "        yield", "with": "yield"}, "null"},
		{step{"apply": "textDocument/formatting", "uri": mainURI, "params": step{"options": step{"tabSize": 4, "insertSpaces": true}}}, "}\\\");\\n        yield(0);\\n"},
		{step{"ask": "textDocument/none", "uri": mainURI}, "error: "},
	}
	script1 := make([]step, len(steps))
	for i, s := range steps {
		script1[i] = s.step
	}
	stdin, err := json.Marshal(script1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", script, modules, "coppice", "sage", "lsp", "--stdio")
	cmd.Stdin, cmd.WaitDelay = bytes.NewReader(stdin), 5*time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var got struct {
		Answers []any
		Code    int
	}
	if err == nil {
		err = json.Unmarshal(out, &got)
	}
	if err != nil || len(got.Answers) != len(steps)+1 || stderr.Len() > 0 {
		t.Fatalf("%v: %s\n%s", err, out, stderr.String())
	}
	if d := cmp.Diff("coppice", got.Answers[0]); d != "" || got.Code != 0 {
		t.Error(d, got.Code)
	}
	for i, s := range steps {
		answer, err := json.Marshal(got.Answers[i+1])
		if err != nil || !strings.Contains(string(answer), s.want) {
			t.Errorf("%v: got %s, want %s", s.step, answer, s.want)
		}
	}
}
