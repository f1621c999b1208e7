package eval_test

import (
	"testing"

	"github.com/coppice-dev/coppice/sage/eval"
)

func TestLanguage(t *testing.T) {
	for name, c := range map[string]struct{ do, want string }{
		"arithmetic":   {`print(1 + 2 * 3 - 4 / 3 % 2); print(7.0 / 2.0); print(-7 / 2); print(-7 % 3); print(7.5 % 2.0);`, "6\n3.5\n-3\n-1\n1.5"},
		"minus":        {`let n = 5; print(n-1); print("{n-1}");`, "4\n4"},
		"comparison":   {`print(1 < 2 && 2.0 >= 2.0 && "a" < "b" && !(1 == 2) || false); let a = 3; let b = 4; print(a > b); print(a >= 3); print(b > 3); print(a <= b);`, "true\nfalse\ntrue\ntrue\ntrue"},
		"text":         {`let s = "a" ++ "b"; s = s ++ "c"; s ++= "d"; print(s); print("{s} {1 + 1} {[1, 2]} {("x", 1.0)}"); print('{raw}');`, "abcd\nabcd 2 [1, 2] (\"x\", 1.0)\n{raw}"},
		"unicode":      {`let s = "grün"; print(len(s)); print(s[2]); print(str_slice(s, 1, 3)); print(to_upper(s)); for c in chars(s) { print(c); }`, "4\nü\nrü\nGRÜN\ng\nr\nü\nn"},
		"if":           {`let x = if 1 < 2 { "y" } else { "n" }; print(x); let y = if false { 1 } else if true { let z = 2; z + 1 } else { 4 }; print(y);`, "y\n3"},
		"loops":        {`let i = 0; while i < 3 { i += 1; if i == 2 { continue; } print(i); } loop { i -= 1; if i == 0 { break; } } print(i); for x in range(0, 3) { print(x); } for x in [4, 5] { print(x); }`, "1\n3\n0\n0\n1\n2\n4\n5"},
		"map loop":     {`let m = {"b": 1, "a": 2}; for (k, v) in m { print("{k}={v}"); }`, "b=1\na=2"},
		"lists":        {`let a = [1, 2]; let b = push(a, 3); let c = push(a, 4); print(a); print(b); print(c); a[0] = 9; print(a); print(b);`, "[1, 2]\n[1, 2, 3]\n[1, 2, 4]\n[9, 2]\n[1, 2, 3]"},
		"nested lists": {`let g = [[0, 0], [0, 0]]; let h = g; g[1][0] = 5; print(g); print(h); let row = g[1]; row[1] = 7; print(g); print(row);`, "[[0, 0], [5, 0]]\n[[0, 0], [0, 0]]\n[[0, 0], [5, 0]]\n[5, 7]"},
		"maps":         {`let m = {"a": 1}; let n = m; map_set(m, "b", 2); m["c"] = 3; print(m); print(n); map_delete(m, "a"); print(m); print(map_get(m, "z")); print(m["b"]); print(map_keys(m)); print(len(m));`, "{\"a\": 1, \"b\": 2, \"c\": 3}\n{\"a\": 1}\n{\"b\": 2, \"c\": 3}\nNone\n2\n[\"b\", \"c\"]\n2"},
		"options":      {`let x = Some(3); match x { Some(n) => print(n), None => print("none") } print(unwrap_or(None, 4)); print(is_some(x)); print(map_option(x, |n: Int| n * 2)); let o: Option<Int> = None; match o { Some(n) => { print(n); } None => { print("nothing"); } }`, "3\n4\ntrue\nSome(6)\nnothing"},
		"results":      {`match parse_int("12") { Ok(n) => print(n + 1), Err(e) => print(e) } match parse_int("x") { Ok(n) => print(n), Err(e) => print(e) }`, "13\n\"x\" is not a whole number"},
		"tuples":       {`let t = (1, "a"); let (n, s) = t; print(n); print(s); print(t.1); print(t);`, "1\na\na\n(1, \"a\")"},
		"closures":     {`let k = 10; let add = |x: Int| x + k; print(add(5)); let total = 0; let count = |x: Int| { total = total + x; }; count(3); count(4); print(total); print(map([1, 2], add));`, "15\n7\n[11, 12]"},
		"higher":       {`print(filter(range(0, 10), |x: Int| x % 2 == 0)); print(reduce([1, 2, 3], 0, |a: Int, x: Int| a + x)); print(sort_by([3, 1, 2], |a: Int, b: Int| b - a)); print(any([1], |x: Int| x == 1)); print(find([1, 2], |x: Int| x > 1));`, "[0, 2, 4, 6, 8]\n6\n[3, 2, 1]\ntrue\nSome(2)"},
		"methods":      {`let xs = [3, 1]; xs = xs.push(2); print(xs.sort().len()); print("a,b".split(","));`, "3\n[\"a\", \"b\"]"},
		"match":        {`let n = 3; let s = match n { 1 => "one", 2 => "two", x if x > 2 => "many {x}", _ => "other" }; print(s); print(match (1, true) { (1, false) => "a", (1, true) => "b", _ => "c" });`, "many 3\nb"},
		"leaving":      {`for i in range(0, 9) { let n = 1 + match i { 3 => { break; } 1 => { continue; } x => x }; print(n); } print("end");`, "1\n3\nend"},
		"deep return":  {`let f = |n: Int| { let x = 1 + (match n { 0 => { return 100; } y => y }); x * 2 }; print(f(0)); print(f(4));`, "100\n10"},
		"shadow":       {`let x = 1; { let x = 2; print(x); } let x = x + 2; print(x);`, "2\n3"},
		"float":        {`print(1.0); print(0.1 + 0.2); print(100000000000000000000000.0); print(sqrt(2.0)); print(int_to_float(3));`, "1.0\n0.30000000000000004\n1e+23\n1.4142135623730951\n3.0"},
		"sum of none":  {`let xs: List<Float> = []; print(sum(xs)); print([xs.sum()]); let f = sum(xs) + 1.0; print(f); let ns: List<Int> = []; print(sum(ns));`, "0.0\n[0.0]\n1.0\n0"},
		"constants":    {`print(MS_PER_MINUTE); print(PI);`, "60000\n3.141592653589793"},
		"json":         {`print(json_stringify([Some(1), None])); print(json_get('{"a": [1]}', "a")); print(json_get_int('{"a": 5}', "a"));`, "[1,null]\nSome(\"[1]\")\nSome(5)"},
	} {
		t.Run(name, func(t *testing.T) { prints(t, c.do, c.want) })
	}
}

func TestPrograms(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"fib": {`fn fib(n: Int) -> Int { if n < 2 { return n; } return fib(n-1) + fib(n-2); }
			agent Main { on start { print(fib(20)); yield(0); } } run Main;`, "6765\n"},
		"generic": {`fn twice<T>(x: T, f: Fn(T) -> T) -> T { return f(f(x)); }
			agent Main { on start { print(twice(3, |n: Int| n * n)); print(twice("a", |s: String| s ++ s)); } } run Main;`, "81\naaaa\n"},
		"records": {`record Point { x: Int, y: Int } record Line { from: Point, to: Point }
			agent Main { on start { let p = Point { x: 1, y: 2 }; let l = Line { to: p, from: p }; p.x = 5; l.to.y = 7; print(p); print(l); print(l.to.y + p.x); } } run Main;`,
			"Point { x: 5, y: 2 }\nLine { from: Point { x: 1, y: 2 }, to: Point { x: 1, y: 7 } }\n12\n"},
		"enums": {`enum Shape { Circle(Float), Rect(Float, Float), Dot }
			fn area(s: Shape) -> Float { return match s { Circle(r) => 3.0 * r * r, Shape::Rect(a, b) => a * b, Dot => 0.0 }; }
			agent Main { on start { for s in [Shape::Circle(1.0), Shape::Rect(2.0, 3.0), Shape::Dot] { print(area(s)); } print(Shape::Rect(1.0, 2.0)); print(Shape::Dot == Shape::Dot); } } run Main;`,
			"3.0\n6.0\n0.0\nRect(1.0, 2.0)\ntrue\n"},
		"constants": {`const LIMIT: Int = 10; const NAMES: List<String> = ["a", "b"];
			agent Main { on start { print(LIMIT * 2); let n = NAMES; n[0] = "x"; print(NAMES); print(n); } } run Main;`, "20\n[\"a\", \"b\"]\n[\"x\", \"b\"]\n"},
		"fails": {`fn half(n: Int) -> Int fails { if n % 2 == 1 { fail "{n} is odd"; } return n / 2; }
			agent Main { on start {
				print(try half(4));
				let a = half(3) catch { 0 }; print(a);
				let b = half(5) catch(e) { print(e.message); -1 }; print(b);
				catch half(7) as e { print("{e.kind}"); 0 };
				let n = 0;
				let c = retry(3) { n += 1; if n < 3 { fail "again"; } n * 10 } catch { 0 }; print(c);
				yield(1);
			} on error(e) { print("no"); } } run Main;`, "2\n0\n5 is odd\n-1\nUser\n30\n"},
		"summon": {`agent Worker { id: Int on start { yield(self.id * 10); } }
			agent Main { on start { let a = summon Worker { id: 1 }; let b = summon Worker { id: 2 }; print(try await a); print(try await b); yield(0); } on error(e) { print(e.message); } } run Main;`, "10\n20\n"},
		"messages": {`enum Msg { Add(Int), Done } agent Counter receives Msg { on start {
				let n = 0;
				loop { match receive() { Add(k) => { n += k; } Done => { yield(n); } } }
			} }
			agent Main { on start { let c = summon Counter { }; for i in range(0, 5) { try send(c, Msg::Add(i)); } try send(c, Msg::Done); print(try await c); } on error(e) { print(e.message); } } run Main;`, "10\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := run(t, c.text, eval.Options{})
			if err != nil || got != c.want {
				t.Errorf("%v\nprinted\n%s\nwant\n%s", err, got, c.want)
			}
		})
	}
}

func TestRuntimeErrors(t *testing.T) {
	for _, c := range []struct{ do, want string }{
		{`let xs = [1]; print(xs[1]);`, "main.sg:1:45: index 1 is out of bounds: expected 0 to 0"},
		{`let z = 0; print(1 / z);`, "division of 1 by zero"},
		{`let z = 0; print(1 % z);`, "remainder of 1 divided by zero"},
		{`let n = 9223372036854775807; print(n + 1);`, "does not fit an Int"},
		{`let n = -9223372036854775808; print(-n);`, "does not fit an Int"},
		{`let n = -9223372036854775808; print(n * -1);`, "does not fit an Int"},
		{`let o: Option<Int> = None; print(unwrap(o));`, "it is None"},
		{`let m = {"a": 1}; print(m["b"]);`, "the map has no key b"},
		{`print(range_step(0, 1, 0));`, "the step is 0"},
		{`print(pow(10, 30));`, "does not fit an Int"},
	} {
		fails(t, c.do, c.want)
	}
}
