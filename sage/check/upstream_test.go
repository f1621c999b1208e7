package check_test

import "testing"

// TestFaultsOfTheOriginal covers programs that the original implementation of Sage gets wrong.
func TestFaultsOfTheOriginal(t *testing.T) {
	for name, text := range map[string]string{
		"L1 n-1 is a difference":       `fn f(n: Int) -> String { let m = n-1; return "{n-1} {m -1}"; }`,
		"L2 calls in strings":          `agent A { @persistent f: Int on start { print("{self.f.get()} {len([1])} {[1].len()}"); } }`,
		"L3 empty blocks":              `fn f(ready: Bool, xs: List<Int>) { if ready {} for x in xs {} while ready {} }`,
		"L4 fields of errors":          `agent A { on start { fail "x"; } on error(e) { match e.kind { ErrorKind.User => print(e.message), _ => {} } } }`,
		"L5 blocks and break in match": `fn f(xs: List<Int>) { loop { match len(xs) { 0 => break, n => { print(n); return; } } } }`,
		"L5 catch before":              `fn g() -> Int fails { 1 } fn f() -> Int { let a = catch g() { 2 }; let b = catch g() as e { len(e.message) }; a + b }`,
		"L5 await summon":              `agent B { on start { yield(1); } } agent A { on start { let x = try await summon B {}; yield(x + 1); } on error(e) { yield(0); } }`,
		"L5 any prompt":                `fn ask(p: String) -> String fails { return try divine("Say " ++ p); }`,
		"L5 long closures":             `fn f() -> Int { let g = |x: Int| { let y = x * 2; if y > 3 { return 3; } y }; return g(1); }`,
		"L5 uses before the brace":     `agent A uses Http, Fs { on start { let r = try Http.get("x"); try Fs.write("a", r.body); } on error(e) {} }`,
		"L6 no yield":                  `agent A { on start { print("x"); } } run A;`,
		"L6 some yield":                `agent A { n: Int = 1 on start { if self.n > 0 { yield(1); } } }`,
		"L7 return of what can fail":   `fn f(n: Int) -> Int fails { if n > 0 { return n; } fail "no"; }`,
		"L10 variants alone":           `enum M { Task, Stop(Int) } fn f(m: M) -> Int { match m { Task => 0, Stop(n) => n } } fn g() -> M { Task }`,
		"L11 typed answers":            `record S { text: String, score: Float } fn f() -> S fails { let s: Oracle<S> = try divine("x"); let t = try divine("x" -> List<S>); print(t[0].score + 0.5); return s; }`,
		"L12 mocks":                    `test "x" { mock divine -> "a"; mock tool Fs.read -> "b"; mock tool Fs.exists -> 'true'; let a = try divine("q"); assert_eq(a, "a"); }`,
		"P4 run with persistent":       `agent A { @persistent n: Int on start { yield(self.n); } } run A;`,
		"P11 beliefs without get":      `agent A { @persistent count: Int on start { self.count = self.count + 1; self.count += 1; yield(self.count.get()); } }`,
		"S4 nested supervisors":        `agent A { @persistent n: Int } supervisor T { strategy: OneForAll children { A { restart: Permanent } } } supervisor S { strategy: OneForOne children { T { restart: Permanent } A { restart: Permanent } } } run S;`,
		"entry with beliefs":           `agent A { name: String on start { yield(self.name); } } run A { name: "x" };`,
		"restart left out":             `agent A { @persistent n: Int } supervisor S { strategy: OneForOne children { A { } A as second { n: 3 } } } run S;`,
	} {
		t.Run(name, func(t *testing.T) {
			info, diagnostics := checked(text)
			if len(diagnostics) > 0 {
				t.Fatal(render(diagnostics))
			}
			everyName(t, info)
		})
	}
}
