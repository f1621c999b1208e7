package eval_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/check/checktest"
	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/eval"
	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/supervisor"
)

// sound runs a program if the checker accepts it. No program may end in an internal error.
func sound(t interface {
	Helper()
	Fatalf(string, ...any)
}, text string) (accepted bool) {
	t.Helper()
	info, diagnostics := check.Program(source.NewFile("main.sg", text), check.Config{})
	if diag.HasErrors(diagnostics) {
		return false
	}
	p, err := eval.Load(info)
	var internal *eval.InternalError
	if errors.As(err, &internal) {
		t.Fatalf("%v\n%s\n%s", err, internal.Stack, text)
	}
	if err != nil {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	in := p.New(eval.Options{
		Lookup: func(string) (string, bool) { return "", false }, Shutdown: 100 * time.Millisecond,
		Limits: eval.Limits{Memory: 1 << 20, Calls: 500, Messages: 10, Agents: 20}, Limit: supervisor.Escalating(5, time.Minute),
		OnEvent: func(e supervisor.Event) {
			if x, is := e.(supervisor.ChildExited); is && errors.As(x.Exit.Err, &internal) {
				err = internal
			}
		},
	})
	defer in.Close()
	_ = in.Run(ctx)
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, internal.Stack, text)
	}
	for i := range info.Tests {
		if ctx.Err() != nil {
			break
		}
		r := p.Test(ctx, i, eval.Options{Limits: eval.Limits{Memory: 1 << 20, Calls: 500, Agents: 20}}, 100*time.Millisecond)
		if errors.As(r.Err, &internal) {
			t.Fatalf("%v\n%s\n%s", r.Err, internal.Stack, text)
		}
	}
	return true
}

// FuzzPrograms runs the texts that pass the checker. Texts that name a file or a tool are skipped.
func FuzzPrograms(f *testing.F) {
	pages, err := filepath.Glob("../syntax/testdata/page/*.sg")
	if err != nil {
		f.Fatal(err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, word := range []string{"_file", "_dir", "Fs", "Shell", "Http", "Database"} {
			if strings.Contains(text, word) {
				return
			}
		}
		sound(t, text)
	})
}

var seeds = []string{
	`record P { x: Int, t: List<Int> } enum E { A, B(Int), C(Int, String) }
	fn f<T>(x: T, g: Fn(T) -> T) -> T { return g(x); }
	fn h(n: Int) -> Int fails { if n == 0 { fail "zero"; } return try h(n - 1); }
	agent M { @persistent n: Int @persistent m: Map<String, List<Int>> l: List<P> on start {
		self.n += 1; self.m["a"] = [1]; self.m["a"][0] = 2; self.l = [P { x: 1, t: [] }]; self.l[0].t = push(self.l[0].t, 3);
		let c = catch h(3); match c { Ok(n) => print(n), Err(e) => print(e.message) }
		for (k, v) in self.m { print("{k} {v}"); }
		let s = match E::C(1, "x") { A => 1, B(n) => n, C(n, s) => n + len(s) }; print(f(s, |x: Int| x + 1));
		let z = loop_it(3) catch { 0 }; yield(z);
	} on error(e) { print(e.kind); } on resting { print("end"); } }
	fn loop_it(n: Int) -> Int { let t = 0; for i in range(0, n) { if i == 1 { continue; } t += i; } return t; }
	test "t" { mock divine -> "x"; assert_eq(try divine("a"), "x"); }
	run M { l: [] };`,
}

// gen generates programs, most of which are valid.
type gen struct {
	t     *rapid.T
	vars  map[string][]string // by type
	n     int
	depth int
}

func (g *gen) pick(choices ...string) string { return rapid.SampledFrom(choices).Draw(g.t, "choice") }

func (g *gen) expr(typ string) string {
	g.depth++
	defer func() { g.depth-- }()
	if vs := g.vars[typ]; len(vs) > 0 && (g.depth > 3 || rapid.Bool().Draw(g.t, "variable")) {
		return rapid.SampledFrom(vs).Draw(g.t, "name")
	}
	if g.depth > 3 {
		return map[string]string{"Int": "1", "Float": "0.5", "Bool": "true", "String": `"s"`, "List<Int>": "[1, 2]", "List<List<Int>>": "[[1], [2, 3]]",
			"Option<Int>": "Some(1)", "Map<String, Int>": `{"a": 1}`, "(Int, List<Int>)": "(1, [2])", "R": "R { a: 1, b: [1] }", "Fn(Int) -> Int": "|x: Int| x"}[typ]
	}
	i, l, s, b, o := func() string { return g.expr("Int") }, func() string { return g.expr("List<Int>") }, func() string { return g.expr("String") }, func() string { return g.expr("Bool") }, func() string { return g.expr("Option<Int>") }
	switch rapid.IntRange(0, 3).Draw(g.t, "general") {
	case 0:
		return "if " + b() + " { " + g.expr(typ) + " } else { " + g.expr(typ) + " }"
	case 1:
		n := g.name()
		g.vars["Int"] = append(g.vars["Int"], n)
		x := "match " + o() + " { Some(" + n + ") => " + g.expr(typ)
		g.vars["Int"] = g.vars["Int"][:len(g.vars["Int"])-1]
		return "(" + x + ", None => " + g.expr(typ) + " })"
	}
	switch typ {
	case "Int":
		return g.pick("("+i()+" + "+i()+")", "("+i()+" - "+i()+")", "("+i()+" * "+i()+")", "("+i()+" / "+i()+")", "("+i()+" % 7)", "len("+l()+")", "len("+s()+")", "sum("+l()+")",
			"unwrap_or("+o()+", "+i()+")", l()+"[0]", "f("+i()+", "+l()+")", "id("+i()+")", g.expr("R")+".a", "reduce("+l()+", 0, |a: Int, x: Int| a + x)",
			"("+g.expr("Fn(Int) -> Int")+")("+i()+")", "(h("+i()+") catch { "+i()+" })", g.expr("(Int, List<Int>)")+".0", "min("+i()+", "+i()+")", "1000000007")
	case "Float":
		return g.pick("int_to_float("+i()+")", "("+g.expr("Float")+" * 1.5)", "2.5", "sqrt("+g.expr("Float")+")")
	case "Bool":
		return g.pick("("+i()+" < "+i()+")", "("+s()+" == "+s()+")", "("+l()+" != "+l()+")", "!"+b(), "("+b()+" && "+b()+")", "contains("+l()+", "+i()+")", "is_some("+o()+")", "("+g.expr("Float")+" <= "+g.expr("Float")+")")
	case "String":
		return g.pick("str("+i()+")", "("+s()+" ++ "+s()+")", `"x{`+g.pick("1", "len([2])")+`}y"`, "to_upper("+s()+")", "str("+g.expr("R")+")", "str_slice("+s()+", 0, "+i()+")", "json_stringify("+l()+")")
	case "List<Int>":
		return g.pick("["+i()+", "+i()+"]", "push("+l()+", "+i()+")", "reverse("+l()+")", "sort("+l()+")", "map("+l()+", "+g.expr("Fn(Int) -> Int")+")", "filter("+l()+", |x: Int| x > 1)",
			"take("+l()+", "+i()+")", "concat("+l()+", "+l()+")", "id("+l()+")", g.expr("R")+".b", "range(0, 5)", "flatten("+g.expr("List<List<Int>>")+")", "unique("+l()+")", g.expr("(Int, List<Int>)")+".1")
	case "List<List<Int>>":
		return g.pick("["+l()+", "+l()+"]", "chunk("+l()+", 2)", "push("+g.expr(typ)+", "+l()+")")
	case "Option<Int>":
		return g.pick("Some("+i()+")", "first("+l()+")", "find("+l()+", |x: Int| x > 2)", `get(`+g.expr("Map<String, Int>")+`, "a")`, "map_option("+o()+", "+g.expr("Fn(Int) -> Int")+")")
	case "Map<String, Int>":
		return `{"a": ` + i() + `, ` + s() + `: ` + i() + `}`
	case "(Int, List<Int>)":
		return "(" + i() + ", " + l() + ")"
	case "R":
		return "R { a: " + i() + ", b: " + l() + " }"
	}
	n := g.name()
	g.vars["Int"] = append(g.vars["Int"], n)
	body := i()
	g.vars["Int"] = g.vars["Int"][:len(g.vars["Int"])-1]
	return "|" + n + ": Int| " + body
}

func (g *gen) name() string {
	g.n++
	return fmt.Sprintf("v%d", g.n)
}

var typesOf = []string{"Int", "Float", "Bool", "String", "List<Int>", "List<List<Int>>", "Option<Int>", "Map<String, Int>", "(Int, List<Int>)", "R", "Fn(Int) -> Int"}

func (g *gen) block(depth int) string {
	saved := map[string]int{}
	for t, vs := range g.vars {
		saved[t] = len(vs)
	}
	var b strings.Builder
	for range rapid.IntRange(1, 5).Draw(g.t, "statements") {
		typ := rapid.SampledFrom(typesOf).Draw(g.t, "type")
		switch k := rapid.IntRange(0, 9).Draw(g.t, "statement"); {
		case k < 4:
			e, n := g.expr(typ), g.name()
			fmt.Fprintf(&b, "let %s: %s = %s;\n", n, typ, e)
			g.vars[typ] = append(g.vars[typ], n)
		case k == 4 && len(g.vars[typ]) > 0:
			n := rapid.SampledFrom(g.vars[typ]).Draw(g.t, "target")
			e := g.expr(typ)
			switch typ {
			case "List<Int>":
				fmt.Fprintf(&b, g.pick("%s = push(%[1]s, %[3]s);\n", "if len(%s) > 0 { %[1]s[0] = %[3]s; }\n", "%s = %[2]s;\n"), n, e, g.expr("Int"))
			case "Map<String, Int>":
				fmt.Fprintf(&b, "map_set(%s, %s, %s);\n", n, g.expr("String"), g.expr("Int"))
			case "R":
				fmt.Fprintf(&b, "%s.b = %s; %[1]s.a += 1;\n", n, g.expr("List<Int>"))
			default:
				fmt.Fprintf(&b, "%s = %s;\n", n, e)
			}
		case k == 5 && depth < 2:
			fmt.Fprintf(&b, "if %s { %s }\n", g.expr("Bool"), g.block(depth+1))
		case k == 6 && depth < 2:
			fmt.Fprintf(&b, "for x%d in %s { %s %s }\n", g.n, g.expr("List<Int>"), g.block(depth+1), g.pick("", "break;", "continue;", "if len([1]) == 1 { continue; }"))
		case k == 7 && len(g.vars["Int"]) > 0:
			n := rapid.SampledFrom(g.vars["Int"]).Draw(g.t, "changed")
			fmt.Fprintf(&b, "let c%d = |y: Int| { %s = y; };\nc%[1]d(%s);\n", g.n, n, g.expr("Int"))
		case k == 8:
			fmt.Fprintf(&b, "self.l = %s; self.n = %s;\n", g.expr("List<Int>"), g.expr("Int"))
		default:
			fmt.Fprintf(&b, "print(%s);\n", g.expr(g.pick("Int", "String", "Bool", "List<Int>", "R", "Option<Int>")))
		}
	}
	for t := range g.vars {
		g.vars[t] = g.vars[t][:saved[t]]
	}
	return b.String()
}

// Programs that the checker's own tests generate never end in an internal error.
func TestCheckedPrograms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if text := checktest.Program().Draw(t, "program"); !sound(t, text) {
			t.Fatalf("not accepted:\n%s", text)
		}
	})
}

// Generated programs that pass the checker never end in an internal error.
func TestGeneratedPrograms(t *testing.T) {
	accepted, all := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		g := &gen{t: t, vars: map[string][]string{"List<Int>": {"self.l"}, "Int": {"self.n"}}}
		text := `record R { a: Int, b: List<Int> }
			fn id<T>(x: T) -> T { return x; }
			fn f(n: Int, xs: List<Int>) -> Int { if n > 3 { return n; } return len(xs) + f(n + 1, push(xs, n)); }
			fn h(n: Int) -> Int fails { if n > 2 { fail "large"; } return n; }
			agent M { @persistent l: List<Int> @persistent n: Int on start { ` + g.block(0) + ` } on error(e) { print(e.message); } }
			supervisor S { strategy: OneForOne children { M { restart: Transient } } } run S;`
		all++
		if sound(t, text) {
			accepted++
		}
	})
	t.Logf("%d of %d were accepted", accepted, all)
	if accepted*2 < all {
		t.Errorf("only %d of %d programs were accepted", accepted, all)
	}
}
