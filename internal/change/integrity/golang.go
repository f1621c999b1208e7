package integrity

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/plaintext"
)

// countGo counts the tests of a Go file, subtests with a literal name among them.
func countGo(name, text string) counts {
	c := counts{tests: map[string]int{}, condition: platform(name)}
	file, err := parser.ParseFile(token.NewFileSet(), "", text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		c.problem = "it cannot be parsed: " + plaintext.OneLine(err.Error(), 200)
		return c
	}
	for _, group := range file.Comments {
		for _, line := range group.List {
			if group.Pos() < file.Package && constraint.IsGoBuild(line.Text) {
				c.condition = strings.TrimSpace(line.Text + " " + c.condition)
			}
		}
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		if isGoTest(f) {
			c.tests[f.Name.Name]++
			if len(f.Body.List) > 0 && isEnd(f.Body.List[0]) {
				c.skips++
			}
		}
		ast.Inspect(f.Body, func(n ast.Node) bool { return c.node(n) })
	}
	return c
}

// isGoTest reports whether go test runs a function.
func isGoTest(f *ast.FuncDecl) bool {
	for _, prefix := range []string{"Test", "Benchmark", "Fuzz", "Example"} {
		rest, ok := strings.CutPrefix(f.Name.Name, prefix)
		if ok && f.Recv == nil && f.Name.Name != "TestMain" && (rest == "" || !('a' <= rest[0] && rest[0] <= 'z')) {
			return true
		}
	}
	return false
}

// isEnd reports whether a statement returns.
func isEnd(s ast.Stmt) bool {
	_, ok := s.(*ast.ReturnStmt)
	return ok
}

// node counts one node. It returns false if what is below does not count.
func (c *counts) node(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IfStmt:
		if id, ok := n.Cond.(*ast.Ident); ok && id.Name == "false" {
			c.trivial++
			return false
		}
	case *ast.CallExpr:
		c.call(n)
	}
	return true
}

func (c *counts) call(call *ast.CallExpr) {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	on := ""
	if id, ok := f.X.(*ast.Ident); ok {
		on = id.Name
	}
	switch f.Sel.Name {
	case "Run":
		if name, ok := literal(call, 0); ok {
			c.tests[name]++
		}
	case "Skip", "SkipNow", "Skipf":
		c.skips++
	case "Exit":
		if code, ok := literal(call, 0); ok && on == "os" && code == "0" {
			c.skips++
		}
	case "Error", "Errorf", "Fatal", "Fatalf", "Fail", "FailNow":
		reports := len(call.Args) > 0 && on != "errors" && on != "fmt"
		if reports || strings.HasPrefix(f.Sel.Name, "Fail") {
			c.asserts++
			return
		}
	}
	if slices.Contains([]string{"assert", "require", "qt", "expect", "is", "should"}, on) {
		if isTrivial(call) {
			c.trivial++
		} else {
			c.asserts++
		}
	}
}

// isTrivial reports whether an assertion compares a literal with itself, or is about true alone.
func isTrivial(call *ast.CallExpr) bool {
	name := call.Fun.(*ast.SelectorExpr).Sel.Name
	for i, arg := range call.Args {
		if id, ok := arg.(*ast.Ident); ok && slices.Contains([]string{"true", "false", "nil"}, id.Name) &&
			strings.HasPrefix(strings.ToLower(name), id.Name) {
			return true
		}
		if i > 0 {
			first, ok := plain(call.Args[i-1])
			second, ok2 := plain(arg)
			if ok && ok2 && first == second {
				return true
			}
		}
	}
	return false
}

// plain returns the text of a literal or a name.
func plain(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Value, true
	case *ast.Ident:
		return e.Name, true
	}
	return "", false
}

// literal returns the value of a literal argument.
func literal(call *ast.CallExpr, i int) (string, bool) {
	if len(call.Args) <= i {
		return "", false
	}
	lit, ok := call.Args[i].(*ast.BasicLit)
	if !ok {
		return "", false
	}
	if text, err := strconv.Unquote(lit.Value); err == nil {
		return text, true
	}
	return lit.Value, true
}

// platform returns the system or processor that the name of a Go file restricts its builds to, such
// as "windows" for a_windows_test.go.
func platform(name string) string {
	parts := strings.Split(strings.TrimSuffix(strings.TrimSuffix(path.Base(name), ".go"), "_test"), "_")
	known := strings.Fields(`aix android darwin dragonfly freebsd illumos ios js linux netbsd openbsd plan9 solaris
		wasip1 windows 386 amd64 arm arm64 loong64 mips mips64 mips64le mipsle ppc64 ppc64le riscv64 s390x wasm`)
	var of []string
	for _, part := range parts[1:] {
		if slices.Contains(known, part) {
			of = append(of, part)
		}
	}
	return strings.Join(of, " ")
}
