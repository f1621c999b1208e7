package syntax_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/syntax/parser"
)

// show writes a tree as (Kind part part …), without spans and without absent parts.
func show(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return ""
		}
		return show(v.Elem())
	case reflect.Slice:
		var parts []string
		for i := range v.Len() {
			parts = append(parts, show(v.Index(i)))
		}
		if parts == nil {
			return ""
		}
		return "[" + strings.Join(parts, " ") + "]"
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[syntax.Ident]() {
			return v.FieldByName("Name").String()
		}
		if path, ok := v.Addr().Interface().(*syntax.Path); ok && path.Segments[0].Args == nil {
			return path.String()
		}
		if named, ok := v.Addr().Interface().(*syntax.NamedType); ok && named.Name.Last() != nil && named.Name.Segments[0].Args == nil {
			return named.Name.String()
		}
		parts := []string{v.Type().Name()}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Type == reflect.TypeFor[source.Span]() || f.Name == "Text" {
				continue
			}
			if s := show(v.Field(i)); s != "" {
				if f.Type.Kind() == reflect.Bool {
					s = strings.ToLower(f.Name)
				}
				parts = append(parts, s)
			}
		}
		return "(" + strings.Join(parts, " ") + ")"
	case reflect.Bool:
		if !v.Bool() {
			return ""
		}
		return "true"
	case reflect.Uint8:
		return fmt.Sprint(v.Interface())
	case reflect.String:
		return fmt.Sprintf("%q", v.String())
	}
	return fmt.Sprint(v.Interface())
}

// TestExpressions checks how expressions and statements are parsed.
func TestExpressions(t *testing.T) {
	tests := []struct{ text, want string }{
		{"n-1", "(BinaryExpr - n (IntLit 1))"},
		{"n - -1", "(BinaryExpr - n (IntLit -1))"},
		{"-9223372036854775808", "(IntLit -9223372036854775808)"},
		{"-x.y", "(UnaryExpr - (FieldExpr x y))"},
		{"-1.abs()", "(UnaryExpr - (CallExpr (FieldExpr (IntLit 1) abs)))"},
		{"1.5 + 2", "(BinaryExpr + (FloatLit 1.5) (IntLit 2))"},
		{"x.0.1", "(ElemExpr (ElemExpr x 0) 1)"},
		{"1 .0", "(ElemExpr (IntLit 1) 0)"},
		{"x[0].y[i+1]", "(IndexExpr (FieldExpr (IndexExpr x (IntLit 0)) y) (BinaryExpr + i (IntLit 1)))"},
		{"a || b && c == d < e ++ f + g * h", "(BinaryExpr || a (BinaryExpr && b (BinaryExpr == c (BinaryExpr < d (BinaryExpr ++ e (BinaryExpr + f (BinaryExpr * g h)))))))"},
		{"a - b - c", "(BinaryExpr - (BinaryExpr - a b) c)"},
		{"a * b + c * d", "(BinaryExpr + (BinaryExpr * a b) (BinaryExpr * c d))"},
		{"try f() ++ x", "(BinaryExpr ++ (TryExpr (CallExpr f)) x)"},
		{"try f() catch { 0 }", "(CatchExpr (TryExpr (CallExpr f)) (Block (IntLit 0)))"},
		{"a + b catch(e) { 0 }", "(CatchExpr (BinaryExpr + a b) e (Block (IntLit 0)))"},
		{"f() catch as e { 0 }", "(CatchExpr (CallExpr f) e (Block (IntLit 0)))"},
		{"catch f() { 0 }", "(CatchExpr prefix (CallExpr f) (Block (IntLit 0)))"},
		{"catch f() as e { 0 } + 1", "(BinaryExpr + (CatchExpr prefix (CallExpr f) e (Block (IntLit 0))) (IntLit 1))"},
		{"catch f()", "(CatchExpr prefix (CallExpr f))"},
		{`fail "a" ++ b`, `(FailExpr (BinaryExpr ++ (StringLit "a") b))`},
		{"retry(3, on: [K.Net], delay: 5) { f() }", "(RetryExpr (IntLit 3) (IntLit 5) (ListLit [(FieldExpr K Net)]) (Block (CallExpr f)))"},
		{"try await summon W { x: 1 } timeout(50)", "(TryExpr (AwaitExpr (SummonExpr W [(FieldInit x (IntLit 1))]) (IntLit 50)))"},
		{"await w.handle", "(AwaitExpr (FieldExpr w handle))"},
		{"send(w, M::Stop)", "(SendExpr w M::Stop)"},
		{`divine("x" -> List<T>)`, `(DivineExpr (StringLit "x") (NamedType (Path [(Segment List [T])])))`},
		{"infer(p ++ q)", "(DivineExpr infer (BinaryExpr ++ p q))"},
		{`trace "x"`, `(TraceExpr (StringLit "x"))`},
		{"yield()", "(YieldExpr)"},
		{"checkpoint()", "(CheckpointExpr)"},
		{"e.message", "(FieldExpr e message)"},
		{"e.match.fn.self", "(FieldExpr (FieldExpr (FieldExpr e match) fn) self)"},
		{"|x: Int, y| x + y", "(ClosureExpr [(Param x Int) (Param y)] (BinaryExpr + x y))"},
		{"|| { a; b }", "(ClosureExpr (BlockExpr (Block [(ExprStmt a)] b)))"},
		{"a || b", "(BinaryExpr || a b)"},
		{"E::<A, B>::V(1)", "(CallExpr (Path [(Segment E [A B]) (Segment V)]) [(IntLit 1)])"},
		{"f::<Int>(x)", "(CallExpr (Path [(Segment f [Int])]) [x])"},
		{"P::<Int> { a: 1 }", "(RecordLit (Path [(Segment P [Int])]) [(FieldInit a (IntLit 1))])"},
		{"{}", "(MapLit)"},
		{`{"a": 1, b: 2,}`, `(MapLit [(MapEntry (StringLit "a") (IntLit 1)) (MapEntry b (IntLit 2))])`},
		{"{ let x = 1; x }", "(BlockExpr (Block [(LetStmt (BindPat x) (IntLit 1))] x))"},
		{"()", "(TupleLit)"},
		{"(1, 2)", "(TupleLit [(IntLit 1) (IntLit 2)])"},
		{"if a { 1 } else if b { 2 } else { 3 }", "(IfExpr a (Block (IntLit 1)) (IfExpr b (Block (IntLit 2)) (BlockExpr (Block (IntLit 3)))))"},
		{"match x { A | }", ""},
		{`match x { 0 => a, -1.5 => b, "s" => c, true => d, _ => e, Some((x, _)) if x > 1 => { break; } E.A => return 1, N::B(y) => continue }`,
			`(MatchExpr x [(MatchArm (LiteralPat (IntLit 0)) a) (MatchArm (LiteralPat (FloatLit -1.5)) b) (MatchArm (LiteralPat (StringLit "s")) c) ` +
				`(MatchArm (LiteralPat (BoolLit value)) d) (MatchArm (WildcardPat) e) (MatchArm (VariantPat Some [(TuplePat [(BindPat x) (WildcardPat)])]) ` +
				`(BinaryExpr > x (IntLit 1)) (BlockExpr (Block [(ExprStmt (BreakExpr))]))) (MatchArm (VariantPat E::A dotted) (ReturnExpr (IntLit 1))) ` +
				`(MatchArm (VariantPat N::B [(BindPat y)]) (ContinueExpr))])`},
		{`"a{x}b"`, `(TemplateLit [(TemplatePart "a") (TemplatePart "b")] [x])`},
		{`"{self.f.get()}"`, `(TemplateLit [(TemplatePart "") (TemplatePart "")] [(CallExpr (FieldExpr (FieldExpr (SelfExpr) f) get))])`},
		{`"{n-1}"`, `(TemplateLit [(TemplatePart "") (TemplatePart "")] [(BinaryExpr - n (IntLit 1))])`},
		{`"{f("in {y} ner")}"`, `(TemplateLit [(TemplatePart "") (TemplatePart "")] [(CallExpr f [(TemplateLit [(TemplatePart "in ") (TemplatePart " ner")] [y])])])`},
		{`"{if a { 1 } else { {} }}"`, `(TemplateLit [(TemplatePart "") (TemplatePart "")] [(IfExpr a (Block (IntLit 1)) (BlockExpr (Block (BlockExpr (Block)))))])`},
		{`"\{x\} \x41\u{e9}\n"`, `(StringLit "{x} Aé\n")`},
		{`'{x} \'\x41'`, `(StringLit "{x} 'A")`},
		{`"{\"a\": {x}}"`, `(TemplateLit [(TemplatePart "{\"a\": ") (TemplatePart "}")] [x])`},
		{"\"a\r\nb\"", `(StringLit "a\nb")`},
		{"agent + test + error + message + start + restart + reply + infer", "(BinaryExpr + (BinaryExpr + (BinaryExpr + (BinaryExpr + (BinaryExpr + (BinaryExpr + (BinaryExpr + agent test) error) message) start) restart) reply) infer)"},
	}
	for _, test := range tests {
		f, diagnostics := parser.Parse(source.NewFile("", "const X = "+test.text+";"))
		if len(diagnostics) > 0 {
			if test.want != "" {
				t.Errorf("%s: %v", test.text, diagnostics[0])
			}
			continue
		}
		checkRoundTrip(t, "const X = "+test.text+";")
		if got := show(reflect.ValueOf(f.Decls[0].(*syntax.ConstDecl).Value)); got != test.want {
			t.Errorf("%s is read as\n%s, not\n%s", test.text, got, test.want)
		}
	}
}

func TestStatements(t *testing.T) {
	tests := []struct{ text, want string }{
		{"if ready {}", "(Block (IfExpr ready (Block)))"},
		{"if ready {} f();", "(Block [(ExprStmt (IfExpr ready (Block))) (ExprStmt (CallExpr f))])"},
		{"for x in Xs {}", "(Block [(ForStmt (BindPat x) Xs (Block))])"},
		{"for (k, v) in m { }", "(Block [(ForStmt (TuplePat [(BindPat k) (BindPat v)]) m (Block))])"},
		{"while A {}", "(Block [(WhileStmt A (Block))])"},
		{"if p == P { x: 1 } {}", "(Block (IfExpr (BinaryExpr == p (RecordLit P [(FieldInit x (IntLit 1))])) (Block)))"},
		{"if f(P {}) {}", "(Block (IfExpr (CallExpr f [(RecordLit P)]) (Block)))"},
		{"if try Fs.exists(a) { }", "(Block (IfExpr (TryExpr (CallExpr (FieldExpr Fs exists) [a])) (Block)))"},
		{"match a {} (b);", "(Block [(ExprStmt (MatchExpr a)) (ExprStmt (ParenExpr b))])"},
		{"match a {};", "(Block [(ExprStmt (MatchExpr a))])"},
		{"x += 1; self.f = v; a[0] -= 1; a.b ++= c;", "(Block [(AssignStmt x += (IntLit 1)) (AssignStmt (FieldExpr (SelfExpr) f) = v) (AssignStmt (IndexExpr a (IntLit 0)) -= (IntLit 1)) (AssignStmt (FieldExpr a b) ++= c)])"},
		{"let mut x: List<List<Int>>= [];", "(Block [(LetStmt mut (BindPat x) (NamedType (Path [(Segment List [(NamedType (Path [(Segment List [Int])]))])])) (ListLit))])"},
		{"let mut = 1;", "(Block [(LetStmt (BindPat mut) (IntLit 1))])"},
		{"let (a, _) = t; let f: Fn(A) -> () = g;", "(Block [(LetStmt (TuplePat [(BindPat a) (WildcardPat)]) t) (LetStmt (BindPat f) (FuncType [A] (TupleType)) g)])"},
		{`span "x" { }`, `(Block [(SpanStmt (StringLit "x") (Block))])`},
		{`mock divine -> "x"; mock tool Http.get -> fail("y"); mock infer -> 1;`, `(Block [(MockStmt (StringLit "x")) (MockStmt Http get (FailExpr (ParenExpr (StringLit "y")))) (MockStmt infer (IntLit 1))])`},
		{"f() catch { } g();", "(Block [(ExprStmt (CatchExpr (CallExpr f) (Block))) (ExprStmt (CallExpr g))])"},
		{"{ 1 } catch2();", "(Block [(ExprStmt (BlockExpr (Block (IntLit 1)))) (ExprStmt (CallExpr catch2))])"},
		{"loop { break; continue }", "(Block [(LoopStmt (Block [(ExprStmt (BreakExpr))] (ContinueExpr)))])"},
		{"let agent = summon A {}; try await agent;", "(Block [(LetStmt (BindPat agent) (SummonExpr A)) (ExprStmt (TryExpr (AwaitExpr agent)))])"},
		{"return; return -1;", "(Block [(ExprStmt (ReturnExpr)) (ExprStmt (ReturnExpr (IntLit -1)))])"},
	}
	for _, test := range tests {
		checkRoundTrip(t, "fn f() { "+test.text+" }")
		f, diagnostics := parser.Parse(source.NewFile("", "fn f() { "+test.text+" }"))
		if len(diagnostics) > 0 {
			t.Errorf("%s: %v", test.text, diagnostics[0])
			continue
		}
		if got := show(reflect.ValueOf(f.Decls[0].(*syntax.FuncDecl).Body)); got != test.want {
			t.Errorf("%s is read as\n%s, not\n%s", test.text, got, test.want)
		}
	}
}

// TestDeclarations parses and prints unusual but valid layouts of declarations.
func TestDeclarations(t *testing.T) {
	for _, text := range []string{
		"agent A receives M follows P as R, Q as S uses Http, Fs { use Db; message: String, @persistent n: Int = 3; on stop { } f: Int on error { } on message(m: M) { } }",
		"agent A { on error(e: Error) { } on waking { } on pause { } on resume { } on resting { } }",
		"pub supervisor S { within_seconds: 3, max_restarts: 1 children { A { n: 1, restart: Permanent, handler Infer: H m: 2 } B {} A { } \"other\" { restart: Temporary } m::C {} } strategy: OneForAll }",
		"record R<T> { a: Int\n b: List<T>\n fn: Int, }\nrecord E {}\nenum E<L, R> { A(L, R), B\n C }",
		"fn f<T, U>(a: T, g: Fn(T) -> U) -> U fails { g(a) }\nfn g() { }\nextern fn h() -> Int fails\nextern fn i(a: Int);\npub fn j() fails {}",
		"mod a; pub use a::b::*; use a::{b as c, d}; use a as b; use super::x; const A = 1; pub const B: String = 'x';",
		"tool T { #[mcp_name = \"a-b\"] fn a(x: Int) -> Int\n fn b() }\nprotocol P { A -> B: M\n B -> A: N, }\nhandler H handles Infer { model: \"m\" temperature: 0.7 }",
		"supervisor S { children { A { f: || return\n x: 1 catch: 2\n match: if a { }\n else: 3 } } }",
		"@serial test 'x' { assert(true); }\nrun A;\nrun B { x: 1, y: 2 };",
		"agent\n  A\n{\n}\nrun // c\n A\n;",
	} {
		checkRoundTrip(t, text)
	}
}
