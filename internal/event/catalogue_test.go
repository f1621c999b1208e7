package event

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/store"
)

// sources parses the Go files of the module that may write events, by path.
func sources(t *testing.T) (code, tests map[string]*ast.File, texts map[string]string) {
	t.Helper()
	code, tests, texts = map[string]*ast.File{}, map[string]*ast.File{}, map[string]string{}
	read := func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		own := strings.HasPrefix(path, filepath.Join("..", "event")+string(filepath.Separator))
		if !own && !bytes.Contains(text, []byte("internal/event\"")) && !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
		if strings.HasSuffix(path, "_test.go") {
			tests[path], texts[path] = file, string(text)
		} else {
			code[path] = file
		}
		return err
	}
	for _, dir := range []string{"..", filepath.Join("..", "..", "test")} {
		if err := filepath.WalkDir(dir, read); err != nil {
			t.Fatal(err)
		}
	}
	return code, tests, texts
}

// constants returns the names of the constants of type Type, by value.
func constants(t *testing.T, file *ast.File) map[Type]string {
	t.Helper()
	found := map[Type]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == "Type" {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil || found[Type(text)] != "" {
				t.Errorf("%s is declared twice, or is not a string: %v", text, err)
			}
			found[Type(text)] = spec.Names[0].Name
		}
		return true
	})
	return found
}

// mentions returns the identifiers of a file: x in this package, event.x elsewhere.
func mentions(path string, file *ast.File) map[string]bool {
	own := strings.HasPrefix(path, filepath.Join("..", "event"))
	found := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "event" {
				found[n.Sel.Name] = true
			}
		case *ast.Ident:
			if own {
				found[n.Name] = true
			}
		}
		return true
	})
	return found
}

// Each type has one constant and one entry, is used where events are written, and is in a test.
func TestCatalogueIsComplete(t *testing.T) {
	code, tests, texts := sources(t)
	declared := constants(t, code[filepath.Join("..", "event", "types.go")])
	delete(code, filepath.Join("..", "event", "types.go"))
	delete(code, filepath.Join("..", "event", "catalogue.go"))
	written, tested := mentioned(code), mentioned(tests)
	listed := map[Type]bool{}
	for _, s := range Catalogue() {
		for _, e := range s.Entries {
			if listed[e.Type] {
				t.Errorf("%s has two entries", e.Type)
			}
			listed[e.Type] = true
			if declared[e.Type] == "" {
				t.Errorf("%s has an entry and no constant", e.Type)
			}
			if e.Doc == "" || strings.HasSuffix(e.Doc, ".") || strings.Contains(e.Doc, "|") {
				t.Errorf("the text of %s is %q", e.Type, e.Doc)
			}
		}
	}
	for value, name := range declared {
		if !listed[value] {
			t.Errorf("%s has no entry in the catalogue", value)
		}
		if !written[name] {
			t.Errorf("%s is written nowhere: remove it, or write it", value)
		}
		quoted := func(text string) bool {
			return strings.Contains(text, `"`+string(value)+`"`) || strings.Contains(text, string(value)+" ") ||
				strings.Contains(text, "type "+string(value))
		}
		if !tested[name] && !slices.ContainsFunc(values(texts), quoted) {
			t.Errorf("%s is in no test", value)
		}
	}
	for old, now := range retired() {
		if listed[old] || !listed[now] {
			t.Errorf("%s is retired and %s is its name now: only that may be in the catalogue", old, now)
		}
	}
}

func mentioned(files map[string]*ast.File) map[string]bool {
	all := map[string]bool{}
	for path, file := range files {
		maps.Copy(all, mentions(path, file))
	}
	return all
}

func values(texts map[string]string) (all []string) {
	for path, text := range texts {
		if filepath.Base(path) != "catalogue_test.go" {
			all = append(all, text)
		}
	}
	return all
}

// Outside this package types are constants, never converted from strings, except to compare them
// with the contents of a log.
func TestTypesAreConstants(t *testing.T) {
	code, _, _ := sources(t)
	for path, file := range code {
		if strings.HasPrefix(path, filepath.Join("..", "event")) {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Type" && isEvent(f.X) && filepath.Base(path) != "queue.go" {
					t.Errorf("%s makes a type of events of a string", path)
				}
			case *ast.CompositeLit:
				typ, ok := n.Type.(*ast.SelectorExpr)
				if !ok || typ.Sel.Name != "Event" || !isEvent(typ.X) {
					break
				}
				for _, field := range n.Elts {
					if kv, ok := field.(*ast.KeyValueExpr); ok && fmt.Sprint(kv.Key) == "Type" {
						if _, literal := kv.Value.(*ast.BasicLit); literal {
							t.Errorf("%s writes an event with a literal as its type", path)
						}
					}
				}
			}
			return true
		})
	}
}

func isEvent(x ast.Expr) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == "event"
}

// An event with an undeclared type is kept as events.unnamed; events of other versions stay
// unchanged.
func TestUndeclaredTypes(t *testing.T) {
	l := openLog(t, Config{})
	l.Append(Event{Type: "unknown", Message: "a"})
	l.Append(Event{Type: AgentMisbehaved, Message: "b"})
	flush(t, l)
	for _, op := range []store.Op{l.Op(Event{Type: "agent.teleported", Message: "c"}),
		{Kind: store.Append, Key: "events", Value: []byte(`{"type":"unknown","message":"d"}`)}} {
		if _, err := l.store.Apply(t.Context(), store.Fence{}, nil, []store.Op{op}); err != nil {
			t.Fatal(err)
		}
	}
	const want = "1 events.unnamed a\n2 agent.misbehaved b\n3 events.unnamed c\n4 unknown d\n"
	if got := lines(read(t, l, 0, Filter{})); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := lines(read(t, l, 0, Filter{Types: []string{"unknown"}})); got != "4 unknown d\n" {
		t.Errorf("of the old type: %s", got)
	}
}

func TestCheckPattern(t *testing.T) {
	for pattern, want := range map[string]string{
		"agent.crashed":      "",
		"agent.*":            "",
		"*":                  "",
		"*.crashed":          "",
		"agent.[cs]*":        "",
		"agent.crashd":       `there is no event type "agent.crashd"; did you mean "agent.crashed"?`,
		"Agent.Crashed":      `there is no event type "Agent.Crashed"; did you mean "agent.crashed"?`,
		"agent.ready":        `there is no event type "agent.ready"; use "agent.started"`,
		"unknown":            `there is no event type "unknown"; use "agent.misbehaved"`,
		"agnet.*":            `no event type matches "agnet.*"; did you mean "agent.*"?`,
		"agnet.cr*":          `no event type matches "agnet.cr*"; did you mean "agent.cr*"?`,
		"agent.xyz*":         `no event type matches "agent.xyz*"; did you mean "agent.*"?`,
		"[x]*":               `no event type matches "[x]*"; write a type such as agent.crashed, or a pattern such as agent.*`,
		"convoy.closed":      `there is no event type "convoy.closed"; write a type such as agent.crashed, or a pattern such as agent.*`,
		"agent.[":            `"agent.[" is not a pattern of event types; write a type such as agent.crashed, or a pattern such as agent.*`,
		"":                   `there is no event type ""; write a type such as agent.crashed, or a pattern such as agent.*`,
		"supervisor.resumed": `there is no event type "supervisor.resumed"; use "agent.resumed"`,
	} {
		err := CheckPattern(pattern)
		if got := fmt.Sprint(err); want == "" && err != nil || want != "" && got != want {
			t.Errorf("%q: %s, want %s", pattern, got, want)
		}
		var p *PatternError
		if err != nil && !errors.As(err, &p) {
			t.Errorf("%q: %T", pattern, err)
		}
	}
	if err := (Filter{Types: []string{"agent.*", "unknown"}}).CheckTypes(); err != nil {
		t.Errorf("a type of old logs: %v", err)
	}
	if err := (Filter{Types: []string{"agent.*", "agent.crash"}}).CheckTypes(); err == nil {
		t.Error("a type that nothing has is taken")
	}
}

func FuzzCheckPattern(f *testing.F) {
	for _, s := range []string{"agent.*", "agnet.[", `\`, "*[", "x*?", "\xff.*"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		err := CheckPattern(pattern)
		if (err == nil) != (Filter{Types: []string{pattern}}.Check() == nil && matches(pattern)) {
			t.Fatalf("%q: %v", pattern, err)
		}
	})
}

func TestPage(t *testing.T) {
	want := string(Page())
	got, err := os.ReadFile("../../docs/events.md")
	if err != nil || string(got) != want {
		t.Errorf("docs/events.md is not current, run go generate ./internal/event; %v", err)
	}
	for _, name := range Types() {
		if strings.Count(want, "| `"+name+"` |") != 1 {
			t.Errorf("%s is not in the page once", name)
		}
	}
}
