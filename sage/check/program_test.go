package check_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
)

// files is a program of several files. The first is main.sg, and a module a::b is a/b.sg.
type files map[string]string

func (f files) load(parent *check.Module, name string) (*source.File, error) {
	path := name + ".sg"
	if parent.Path != "" {
		path = strings.ReplaceAll(parent.Path, "::", "/") + "/" + path
	}
	text, ok := f[path]
	if !ok {
		return nil, errors.New("there is no file " + path)
	}
	return source.NewFile(path, text), nil
}

func (f files) check(processes ...string) (*check.Info, []diag.Diagnostic) {
	return check.Program(source.NewFile("main.sg", f["main.sg"]), check.Config{Load: f.load, Processes: processes})
}

func checked(text string) (*check.Info, []diag.Diagnostic) {
	return files{"main.sg": text}.check("worker", "db")
}

func render(diagnostics []diag.Diagnostic) string {
	var b strings.Builder
	_ = diag.Write(&b, diagnostics, false)
	return b.String()
}

// accepted checks a program that must not have errors.
func accepted(t *testing.T, text string) *check.Info {
	t.Helper()
	info, diagnostics := checked(text)
	if diag.HasErrors(diagnostics) {
		t.Errorf("%s", render(diagnostics))
	}
	return info
}

// missing completes the example programs of the documentation on supervision.
var missing = map[string]string{
	"declaration": "agent DatabaseSteward { connection_string: String schema_version: Int on start { yield(0); } }\n" +
		"agent APISteward { port: Int on start { yield(0); } }\nagent MetricsCollector { interval_ms: Int on start { yield(0); } }\n",
	"one_for_one":  "agent Worker1 { on start { } } agent Worker2 { on start { } } agent Worker3 { on start { } }\n",
	"one_for_all":  "agent ConfigLoader { on start { } } agent Worker1 { on start { } } agent Worker2 { on start { } }\n",
	"rest_for_one": "agent DatabaseSteward { on start { } } agent APISteward { on start { } } agent FrontendSteward { on start { } }\n",
	"persistence":  "fn reconnect_to_database() { }\n",
	"beliefs":      "agent QueryMonitor { @persistent check_count: Int slow_query_threshold_ms: Int @persistent alert_count: Int on start { yield(0); } }\n",
	"guardian":     "fn check_pool_connections() -> Int { return 3; }\n",
	"nested": "agent QueryMonitor { @persistent check_count: Int @persistent alert_count: Int on start { yield(0); } }\n" +
		"agent PoolMonitor { @persistent n: Int on start { } } agent RouterAgent { on start { } } agent HandlerPool { on start { } }\n",
}

func TestSeedPage(t *testing.T) {
	pages, err := filepath.Glob("../syntax/testdata/page/*.sg")
	if err != nil || len(pages) < 8 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(page), ".sg")
		t.Run(name, func(t *testing.T) {
			info := accepted(t, missing[name]+string(text))
			everyName(t, info)
		})
	}
}

// failer is implemented by testing.T and rapid.T.
type failer interface {
	Helper()
	Errorf(string, ...any)
	Fatalf(string, ...any)
}

// everyName checks that every name of a program resolves.
func everyName(t failer, info *check.Info) {
	t.Helper()
	for _, m := range info.Modules {
		syntax.Inspect(m.Tree, func(n syntax.Node) bool {
			if x, ok := n.(syntax.Expr); ok && info.Types[x] == nil {
				switch x.(type) {
				case *syntax.Ident, *syntax.Path, *syntax.SelfExpr, *syntax.StringLit:
				default:
					t.Errorf("%s: %T has no type: %s", x.Extent().Position(), x, x.Extent().Source())
				}
			}
			if id, ok := n.(*syntax.Ident); ok && info.Defs[id] == nil && info.Uses[id] == nil && !unresolved(id.Name) {
				t.Errorf("%s: %s means nothing", id.Position(), id.Name)
			}
			return true
		})
	}
}

// unresolved reports whether a name of the tree refers to no object.
func unresolved(name string) bool {
	switch name {
	case "_", "start", "stop", "waking", "resting", "error", "message", "pause", "resume", "restart", "strategy",
		"Permanent", "Transient", "Temporary", "OneForOne", "OneForAll", "RestForOne",
		"Int", "Float", "Bool", "String", "Unit", "List", "Map", "Agent", "Oracle", "serial", "self", "root", "super":
		return true
	}
	return false
}
