package check_test

import (
	"fmt"
	"strings"
	"testing"
)

// In these programs « and » delimit the span of each diagnostic, listed in source order.
var faults = []struct{ codes, text string }{
	// Names.
	{"E010", `agent A { on start { print(«missing»); } }`},
	{"E010", `agent A { on start { «mising»(1); let missing = 2; } }`},
	{"E010", `agent A { on start { let x = 1; print(«y»); print(x + y); } }`},
	{"E010", `agent A { on start { if true { let x = 1; } print(«x»); } }`},
	{"E010", `agent A { n: Int on start { print(«n»); } }`},
	{"E010", `agent A { on start { «x» = 1; } }`},
	{"E010", `agent A { on start { let a = summon «B» {}; await a; a.b(); } }`},
	{"E010", `fn f(a: Agent<«B»>) { }`},
	{"E010", `enum E { A } fn f() -> E { return E::«B»; }`},
	{"E010", `enum E { A } enum F { A } agent M { on start { let x = «A»; } }`},
	{"E010", `enum E { A } fn f(e: E) -> Int { return match e { A => 1, «C» => 2, }; }`},
	{"E010", `agent A { on start { print(«len»::x); } }`},
	{"E018", `fn f() { } fn «f»() { }`},
	{"E018", `agent A { } agent «A» { }`},
	{"E018", `supervisor S { strategy: OneForOne children { A {restart: Transient} } } agent A { } supervisor «S» { strategy: OneForOne children { A {restart: Transient} } }`},
	{"E018", `record R { a: Int, «a»: Int }`},
	{"E018", `enum E { A, «A» }`},
	{"E018", `agent A { n: Int «n»: Int }`},
	{"E018", `record «List» { a: Int }`},
	{"E018", `fn f(a: Int, «a»: Int) { }`},
	{"E018", `fn f(p: (Int, Int)) { let (a, «a») = p; }`},

	// Types.
	{"E011", `fn f() { let x: Int = «"a"»; }`},
	{"E011", `fn f() -> Int { return «"a"»; }`},
	{"E011", `fn f() -> Int { «"a"» }`},
	{"E011", `fn «f»() -> Int { 1; }`},
	{"E011", `fn f(b: Bool) -> Int { «if b { return 1; }» }`},
	{"E011", `fn f(n: Int) { if «n» { } }`},
	{"E011", `fn f(n: Int) { while «n» { } }`},
	{"E011", `fn f(n: Int) { f(«"a"»); }`},
	{"E011", `fn f() { let xs = [1, «"a"»]; }`},
	{"E011", `fn f() { let xs = {"a": 1, "b": «"c"»}; }`},
	{"E011", `fn f(b: Bool) -> Int { return if b { 1 } else { «"a"» }; }`},
	{"E011", `fn f(b: Bool) -> Int { let x = «if b { 1 }»; return x; }`},
	{"E011", `fn f(n: Int) -> Int { return match n { 0 => 1, _ => «"a"» }; }`},
	{"E011", `fn f(n: Int) { match n { «"a"» => { } _ => { } } }`},
	{"E011", `record P { x: Int } fn f() -> P { return P { x: «"a"» }; }`},
	{"E011", `fn f() { print(map([1], «|x: String| x»)); }`},
	{"E011", `fn f() { let x = 1; x = «"a"»; }`},
	{"E011", `agent A { on start { if true { yield(1); } yield(«"a"»); } }`},
	{"E011", `fn f(xs: List<Int>) { print(xs[«"a"»]); }`},
	{"E011", `fn f() -> Option<Int> { return «1»; }`},
	{"E011", `fn f() { print(«print»); }`},
	{"E011", `fn f() { print("{«f»}"); }`},
	{"E012", `fn f(n: Int) { «f()»; }`},
	{"E012", `fn f(n: Int) { «f(1, 2)»; }`},
	{"E012", `fn f() { «trim()»; }`},
	{"E012", `fn f() { print(«Some(1, 2)»); }`},
	{"E021", `fn f() { print(«"a"» + "b"); }`},
	{"E021", `fn f() { print(«"a" + 1»); }`},
	{"E021", `fn f() { print("a" ++ «1»); }`},
	{"E021", `fn f() { print(«1 + 1.5»); }`},
	{"E021", `fn f() { print(«1 == "a"»); }`},
	{"E021", `fn f() { print(«true» < false); }`},
	{"E021", `fn f() { print(-«true»); }`},
	{"E021", `fn f() { let b = true; «b» += true; }`},
	{"E021", `fn g() { } fn f() { print(«g == g»); }`},
	{"E021", `fn f(n: Int) { print(«n[0]»); }`},
	{"E022", `fn f() { let n = 1; «n»(2); }`},
	{"E022", `record R { a: Int } fn f() { «R»(2); }`},
	{"E023", `record R { a: Int } fn f(r: R) { print(r.«b»); }`},
	{"E023", `record R { a: Int } fn f() -> R { return R { «b»: 1 }; }`},
	{"E023", `record R { a: Int, b: Int } fn f() -> R { return «R» { a: 1 }; }`},
	{"E023", `fn f(n: Int) { print(n.«a»); }`},
	{"E023", `fn f(s: String) { print(s.«lenn»()); }`},
	{"E028", `fn f(p: (Int, Int)) { let «(a, b, c)» = p; }`},
	{"E031", `fn f(n: «Integer») { }`},
	{"E031", `fn f(n: «List») { }`},
	{"E031", `fn f(n: «Int<Int>») { }`},
	{"E031", `fn f() { let x = «Point» { x: 1 }; }`},
	{"E031", `fn f(m: Map<«Fn(Int) -> Int», Int>) { }`},
	{"E032", `record R { «r: R» }`},
	{"E032", `record R { s: S } record S { «r: (Int, R)» }`},
	{"E034", `fn f(p: (Int, Int)) { print(«p.2»); }`},
	{"E049", `fn f(p: List<Int>) { print(«p.0»); }`},
	{"E021", `fn f(e: Error) { let xs = [1] ++ «e»; }`},
	{"E035", `fn f(n: Int) { for i in «n» { } }`},
	{"E041", `fn f() { let g = |x| «x».name; }`},
	{"E092", `fn d<T>(x: T) -> (T, T) { return (x, x); } fn f() { let x = d(«d(d(d(d(d(d(d(d(d(1)))))))))»); }`},

	// Matches and patterns.
	{"E024", `fn f(b: Bool) -> Int { return match «b» { true => 1 }; }`},
	{"E024", `fn f(n: Int) -> Int { return match «n» { 0 => 1 }; }`},
	{"E024", `fn f(o: Option<(Bool, Bool)>) { match «o» { None => { } Some((true, _)) => { } Some((_, true)) => { } } }`},
	{"E024", `fn f(n: Int) { match «n» { x if x > 0 => { } } }`},
	{"W001", `fn f(b: Bool) { match b { true => { } false => { } «_» => { } } }`},
	{"W001", `fn f(n: Int) { match n { 0 => { } 1 => { } «0» => { } _ => { } } }`},
	{"W001", `fn f(n: Int) { match n { _ => { } «0» => { } } }`},
	{"E030", `fn f(o: Option<Int>) { let «Some(x)» = o; }`},
	{"E030", `fn f(o: List<(Int, Int)>) { for «(0, x)» in o { } }`},
	{"E012", `fn f(o: Option<Int>) { match o { «Some» => { } None => { } } }`},

	// Failures.
	{"E013", `fn f() -> Int fails { fail "a"; } agent A { on start { let x = «f()»; } }`},
	{"E013", `agent A { on start { let x = «divine("a")»; } }`},
	{"E013", `agent A { on start { «await summon B {}»; } } agent B { }`},
	{"E013", `agent A { on start { let b = summon B {}; «send(b, 1)»; } } agent B receives Int { }`},
	{"E013", `agent A { use Http on start { let x = «Http.get("a")»; } }`},
	{"E013", `fn f(xs: List<String>) { print(«map(xs, |x| try read_file(x))»); }`},
	{"E014", `fn g() -> Int fails { return 1; } fn f() -> Int { return «try g()»; }`},
	{"E014", `fn f() -> Int { «fail "a"»; }`},
	{"E014", `fn f() -> Int { return «try parse_int("1")»; }`},
	{"E015", `fn g() -> Int fails { return 1; } fn f() -> Int { return g() catch { «"a"» }; }`},
	{"E016", `agent A { on start { let x = «try divine("a")»; } }`},
	{"E016", `agent A { on start { «fail "a"»; } }`},
	{"E016", `agent A { on start { let x = «retry(3) { try divine("a") }»; } }`},
	{"E058", `fn f() fails { fail «1»; }`},
	{"W003", `fn f() -> Int { return «try 1»; }`},
	{"W003", `fn f() -> Int { return «1 catch { 2 }»; }`},

	// Misplaced constructs.
	{"E017", `agent A { on resting { «yield(1)»; } }`},
	{"E017", `agent A { on stop { «yield(1)»; } }`},
	{"E090", `agent A { @persistent n: Int on waking { «yield(1)»; } }`},
	{"E090", `agent A { on pause { «yield(1)»; } on resume { } }`},
	{"E090", `fn f() { «yield(1)»; }`},
	{"E090", `agent A { on start { let f = || «yield(1)»; } }`},
	{"E091", `agent A receives Int { @persistent n: Int on waking { let m = «receive()»; } }`},
	{"E091", `agent A receives Int { on resting { let m = «receive()»; } }`},
	{"E059", `agent A { on start { let m = «receive()»; } }`},
	{"E059", `fn f() { let m = «receive()»; }`},
	{"E059", `agent A { on start { let b = summon B {}; send(«b», 1) catch { }; } } agent B { }`},
	{"E059", `agent A receives «Fn(Int) -> Int» { }`},
	{"E011", `agent A { on start { let b = summon B {}; send(b, «"a"») catch { }; } } agent B receives Int { }`},
	{"E037", `agent A { on start { let x = await «1» catch { 2 }; } }`},
	{"E037", `agent A { on start { send(«1», 2) catch { }; } }`},
	{"E026", `fn f() { «break»; }`},
	{"E026", `fn f() { «continue»; }`},
	{"E026", `fn f() { loop { let g = || «break»; } }`},
	{"E026", `agent A { on start { «return 1»; } }`},
	{"E029", `fn f() { print(«self.a»); }`},
	{"E053", `fn f() { «checkpoint()»; }`},
	{"E053", `agent A { n: Int on start { «self.n.checkpoint»(); } }`},
	{"E050", `fn f() { «assert»(true); }`},
	{"E056", `fn f() { «mock divine -> "a";» }`},
	{"E057", `fn f() { «mock tool Http.get -> "a";» }`},
	{"E055", `test "a" { } test «"a"» { }`},
	{"E027", `const A: Int = 1; fn f() { «A» = 2; }`},
	{"E027", `fn f(s: String) { «s[0]» = "a"; }`},
	{"E027", `fn f() { map_set(«{"a": 1}», "b", 2); }`},
	{"E038", `agent A { on start { let x = «Http».get("a") catch { HttpResponse { status: 0, body: "", headers: {} } }; } }`},
	{"E036", `agent A { use Http on start { Http.«fetch»("a"); } }`},
	{"E033", `const «A»: Int = B; const B: Int = A;`},
	{"E048", `fn f() -> Int { return 1; } const A: Int = «f()»;`},
	{"E042", `protocol «P» { A -> B: Int }`},
	{"E042", `«extern fn f(n: Int) -> Int»`},
	{"E042", `tool «T» { fn f(n: Int) -> Int }`},

	// Agents.
	{"E044", `agent A { on start { print(self.«n»); } }`},
	{"E044", `agent A { on start { let b = summon B { «m»: 1 }; } } agent B { n: Int }`},
	{"E045", `agent A { on start { let b = summon «B» { }; } } agent B { n: Int @persistent m: Int k: Int = 3 }`},
	{"E011", `agent A { on start { let b = summon B { n: «"a"» }; } } agent B { n: Int }`},
	{"E011", `agent A { n: Int on start { self.n = «"a"»; } }`},
	{"E011", `agent A { @persistent n: Int on start { self.n.set(«"a"»); } }`},
	{"E047", `agent A { on start { } on «start» { } }`},
	{"E052", `agent A { @persistent f: «Fn(Int) -> Int» }`},
	{"E052", `agent B { } agent A { @persistent f: «List<Agent<B>>» }`},
	{"E052", `record R { f: Option<Fn() -> Int> } agent A { @persistent f: «R» }`},
	{"W006", `agent A { on «waking» { } }`},
	{"E043", `run «Missing»;`},
	{"E043", `agent A { } run «A»;`},
	{"E043", `agent A { on start { } } run A; «run A;»`},
	{"E045", `agent A { n: Int on start { } } run «A»;`},

	// Supervisors.
	{"E060", `supervisor «S» { strategy: OneForOne children { } } run S;`},
	{"E061", `supervisor S { strategy: OneForOne children { «Missing» { restart: Permanent } } }`},
	{"E061", `supervisor S { strategy: OneForOne children { «"missing"» { restart: Permanent } "worker" { restart: Permanent } } }`},
	{"E061", `fn f() { } supervisor S { strategy: OneForOne children { «f» { restart: Permanent } } }`},
	{"E062", `agent A { n: Int @persistent m: Int } supervisor S { strategy: OneForOne children { «A» { restart: Transient } } }`},
	{"E044", `agent A { } supervisor S { strategy: OneForOne children { A { restart: Transient «n»: 1 } } }`},
	{"E011", `agent A { n: Int } supervisor S { strategy: OneForOne children { A { restart: Transient n: «"a"» } } }`},
	{"E064", `agent A { n: Int } supervisor S { strategy: OneForOne children { A { restart: Transient n: 1 «n»: 2 } } }`},
	{"E064", `agent A { } supervisor S { strategy: OneForOne children { A { restart: Transient «restart»: Permanent } } }`},
	{"E064", `agent A { } supervisor S { strategy: OneForOne «strategy»: OneForAll children { A { restart: Transient } } }`},
	{"E064", `agent A { } supervisor S { strategy: OneForOne children { A as x { restart: Transient } A as «x» { restart: Transient } } }`},
	{"E064", `agent A { } agent B { } supervisor S { strategy: OneForOne children { A { restart: Transient } B as «A» { restart: Transient } } }`},
	{"E010", `agent A { } agent B { a: Agent<A> } supervisor S { strategy: OneForOne children { A as one { restart: Transient } B { restart: Transient a: «on» } } }`},
	{"E010", `agent A { } agent B { a: Agent<A> } supervisor S { strategy: OneForOne children { A { restart: Transient } B { restart: Transient a: «A» } } }`},
	{"E010", `agent A { } agent B { a: Agent<A> } supervisor T { strategy: OneForOne children { A { restart: Transient } } } supervisor S { strategy: OneForOne children { T as t { restart: Transient } B { restart: Transient a: «t» } } }`},
	{"E011", `agent A { } agent B { a: Agent<B> } supervisor S { strategy: OneForOne children { A as one { restart: Transient } B { restart: Transient a: «one» } } }`},
	{"E029", `fn f() { let me = «self»; }`},
	{"E001", `agent A { } supervisor S { strategy: OneForOne children { A as «"x"» { restart: Transient } } }`},
	{"W009", `agent A { «n»: Int _spare: Int used: Int @persistent kept: Int on start { print("{self.used}"); self.kept += 1; } }`},
	{"W010", `fn f() { let xs = [1]; «xs.push(4)»; let m = {1: 2}; map_set(m, 1, 3); let n = xs.map(|x: Int| x + 1); xs.map(|x: Int| print(x)); }`},
	{"W010 W010", `fn f(a: Int) { «a == 2»; «str(a)»; }`},
	{"W001", `fn f() -> Int { return 1; «print(2);» }`},
	{"W001", `agent A { on start { if true { yield(1); } yield(2); «print(3);» } }`},
	{"E015", `agent A { } fn f(a: Agent<A>) { let v = await a catch { «41» }; }`},
	{"W008", `fn f() { let r = catch Shell.run(«"ls | wc"»); let s = catch Shell.run("git status --short"); }`},
	{"W007", `agent A { @persistent n: Int } supervisor S { strategy: OneForOne children { A { } «A» { } A as c { } } }`},
	{"W007", `agent A { @persistent n: Int } supervisor T { strategy: OneForOne children { A { } } } supervisor S { strategy: OneForOne children { T { } «T» { } } }`},
	{"E064", `supervisor S { strategy: OneForOne children { "db" { restart: Transient } «"db"» { restart: Transient } } }`},
	{"E065", `agent A { } supervisor S { strategy: «OneForOn» children { A { restart: Transient } } }`},
	{"E065", `agent A { } supervisor S { strategy: OneForOne children { A { restart: «Allways» } } }`},
	{"E065", `agent A { } supervisor «S» { children { A { restart: Transient } } }`},
	{"E065", `agent A { } supervisor S { strategy: OneForOne «max_restarts»: 3 children { A { restart: Transient } } }`},
	{"E067", `supervisor S { strategy: OneForOne children { «S» { restart: Permanent } } }`},
	{"E067", `supervisor S { strategy: OneForOne children { T { restart: Permanent } } } supervisor T { strategy: OneForOne children { «S» { restart: Permanent } } }`},
	{"W004", `agent A { } supervisor S { strategy: OneForOne children { «A» { restart: Permanent } } }`},

	// Several errors without consequential ones.
	{"E010 E011 E061", `fn f() { let x = «missing»; let y: Int = x; x.foo; } fn g() -> Int { «"a"» } supervisor S { strategy: OneForOne children { «B» { restart: Permanent } } }`},
	{"E031", `fn f(x: «Missing») -> Int { let y = x; print(y.z); print(y[0]); return y + 1; }`},
	{"E010", `agent A { on start { let h = summon «B» { n: 1 }; let r = await h; print(r + 1); } }`},
}

func TestFaults(t *testing.T) {
	for i, f := range faults {
		t.Run(fmt.Sprintf("%d %s", i, f.codes), func(t *testing.T) {
			text, spans := unmark(f.text)
			_, diagnostics := checked(text)
			var got, want []string
			for _, d := range diagnostics {
				got = append(got, fmt.Sprintf("%s %s", d.Code, text[d.Span.Start:d.Span.End]))
				if d.Message == "" || strings.HasSuffix(d.Message, ".") || strings.Contains(d.Message, "%!") || strings.Contains(d.Help, "%!") {
					t.Errorf("message: %q, help: %q", d.Message, d.Help)
				}
			}
			for k, code := range strings.Fields(f.codes) {
				want = append(want, fmt.Sprintf("%s %s", code, text[spans[k][0]:spans[k][1]]))
				if k < len(diagnostics) && int(diagnostics[k].Span.Start) != spans[k][0] {
					t.Errorf("diagnostic %d is at %d, not at %d", k, diagnostics[k].Span.Start, spans[k][0])
				}
			}
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("got %q, want %q\n%s", got, want, render(diagnostics))
			}
		})
	}
}

// unmark removes « and » from a text and returns their positions.
func unmark(text string) (plain string, spans [][2]int) {
	var b strings.Builder
	for _, r := range text {
		switch r {
		case '«':
			spans = append(spans, [2]int{b.Len(), b.Len()})
		case '»':
			spans[len(spans)-1][1] = b.Len()
		default:
			b.WriteRune(r)
		}
	}
	return b.String(), spans
}
