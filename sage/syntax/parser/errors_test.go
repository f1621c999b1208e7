package parser_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax/parser"
)

// TestErrors checks all errors of each program, formatted as line:column code message; help.
func TestErrors(t *testing.T) {
	in := func(stmts string) string { return "fn f() {\n" + stmts + "\n}" }
	tests := []struct {
		name, text string
		want       []string
	}{
		{"missing semicolon", in("let x = 1\nprint(x)\nyield(0);"), []string{
			"2:10 E001 expected `;` after the statement",
			"3:9 E001 expected `;` after the statement",
		}},
		{"two on a line", in("let x = 1 2;\nlet y = ;"), []string{
			"2:11 E001 expected `;` after the statement, found a number",
			"3:9 E001 expected an expression, found `;`",
		}},
		{"one error a line", in("f(a b) + [c d] + (e g);\nlet y = ;"), []string{
			"2:5 E001 expected `,` or `)`, found `b`",
			"3:9 E001 expected an expression, found `;`",
		}},
		{"string without end", in("print(\"hello);\nlet x = 1;\nprint(\"x\");\nlet y 2;"), []string{
			"2:7 E003 this string never ends; add the closing \"",
			"5:7 E001 expected `=` and a value, found a number",
		}},
		{"brace in a string", in(`print("hello {name");`), []string{
			"2:7 E003 this string never ends; add the closing \"; write \\{ for a brace that is text",
		}},
		{"empty braces are text", in(`print("a {} b");`), nil},
		{"format in a string", in(`print("a {x:02} b");`), []string{
			"2:12 E001 expected `}` after the expression in the string, found `:`; write \\{ for a brace that is text",
		}},
		{"escapes", in(`let x = "\q \x1 \u{110000} \x41";`), []string{
			"2:10 E003 this escape is not known; known are \\n \\t \\r \\\\ \\\" \\' \\{ \\} \\xNN and \\u{…}; a backslash is written \\\\",
			"2:13 E003 this escape is not known; two hexadecimal digits follow \\x, as in \\x1b",
			"2:17 E003 this escape is not known; one to six hexadecimal digits in braces follow \\u, as in \\u{1f33f}",
		}},
		{"numbers", in("let a = 9223372036854775808;\nlet b = -9223372036854775808;\nlet c = 12ab;\nlet d = 1_000;"), []string{
			"2:9 E004 this number is too large for an Int; the largest is 9223372036854775807, the smallest -9223372036854775808",
			"4:9 E004 a number consists of digits, with a point among them if it is a Float",
			"5:9 E004 a number consists of digits, with a point among them if it is a Float",
		}},
		{"other languages", in("var x = 1;\nx ~= 2;\nif not ready { }\nif a and b { }\nlet y = x & 1;\nthrow e;\ndef g();"), []string{
			"2:1 E007 `var` is not a word of Sage; here it is `let`",
			"3:3 E002 the character ~ means nothing here",
			"4:4 E007 `not` is not an operator; write !",
			"5:6 E007 `and` is not an operator; write &&",
			"6:11 E002 the character & means nothing here; `and` is written &&",
			"7:1 E007 `throw` is not a word of Sage; here it is `fail`",
			"8:1 E007 `def` is not a word of Sage; here it is `fn`",
		}},
		{"earlier Sage", "agent A {\n belief x: Int\n on start {\n let w = spawn W { x: 1 };\n emit 1;\n }\n}", []string{
			"2:2 E007 `belief` is a word of an earlier Sage; write only name: Type",
			"4:10 E007 `spawn` is a word of an earlier Sage; here it is `summon`",
			"5:2 E007 `emit` is not a word of Sage; here it is `yield(…)`",
		}},
		{"in an agent", "agent A {\n fn g() { }\n let x = 1;\n while true { }\n print(1);\n on begin { }\n @saved n: Int\n x: Int\n}", []string{
			"2:2 E006 `fn` cannot stand in an agent; declare the function at the top of the file, and give it what it needs of self as arguments",
			"3:2 E006 `let` stands outside of a handler; a belief of an agent is written name: Type, a variable stands in a handler such as on start { }",
			"4:2 E006 a statement stands outside of a handler; put it into a handler such as on start { }",
			"5:2 E006 an expression stands outside of a handler; put it into a handler such as on start { }",
			"6:5 E001 expected an event, found `begin`; the events are start, waking, resting, error(e), message(m: T), pause and resume",
			"7:3 E001 unknown annotation `@saved`; beliefs that are kept are marked with @persistent",
		}},
		{"at the top", "let x = 1;\non start { }\nstruct P { x: Int }\nfn f() { }\n}\n$\nrecord R { a: Int }", []string{
			"1:1 E006 a statement stands outside of a function; put it into a function, or into on start of an agent",
			"2:1 E006 `on` stands outside of an agent; handlers stand in the braces of an agent; is there a } too many before it?",
			"3:1 E007 `struct` is not a word of Sage; here it is `record`",
			"5:1 E001 this } closes nothing; remove it, or look for a } too many before it",
			"6:1 E002 the character $ means nothing here",
		}},
		{"brace not closed", "agent A {\n    on start {\n        if x {\n            f();\n        yield(0);\n    }\n}\nagent B {\n    x Int\n}\n", []string{
			"1:9 E001 this { is never closed; add the } that belongs to it",
			"9:7 E001 expected `:` and the type of the field, found `Int`",
		}},
		{"handler not closed", "agent A {\n    on start {\n        f();\n    on error(e) {\n    }\n}\n", []string{
			"2:14 E001 this { is never closed; add the } that belongs to it",
		}},
		{"arrows", "fn f() => Int {\n match x { A -> 1, B => 2 }\n}\nfn g(): Int { 1 }", []string{
			"1:8 E007 expected `->` before the type of the result, found `=>`; write -> before the type",
			"2:14 E007 expected `=>` after the pattern, found `->`",
			"4:7 E007 expected `->` before the type of the result, found `:`; write -> before the type",
		}},
		{"assignment", in("if x = 1 { }\nf() = 2;\nmatch x { 1 => x = 2, }\n1 += 2;"), []string{
			"2:6 E001 `=` assigns and cannot stand in a condition; write == to compare",
			"3:1 E008 this cannot be assigned to; a variable, a field and an element can: x = v, self.f = v, x.f = v, x[i] = v",
			"4:18 E006 an assignment is not a value; put it into braces: => { x = v; }",
			"5:1 E008 this cannot be assigned to; a variable, a field and an element can: x = v, self.f = v, x.f = v, x[i] = v",
		}},
		{"calls", in("print \"x\";\nsend(a);\nyield(1, 2);\nreceive(1);\nsummon W;\nyield 1;"), []string{
			"2:7 E001 expected `;` after the statement, found a string; arguments are written in parentheses: print(…)",
			"3:5 E001 `send` is given one value, and takes 2 values",
			"4:6 E001 `yield` is given 2 values, and takes at most one value",
			"5:8 E001 `receive` is given one value, and takes no value",
			"6:9 E001 expected `{` after the agent, found `;`; write the braces even without beliefs: summon W {}",
			"7:7 E001 expected `(` after `yield`, found a number; write yield(…)",
		}},
		{"lists", in("f(1 2);\nlet x = [1, 2;\ng(a, b;\nlet y = P { a: 1 b: 2 };\nlet z = 1;"), []string{
			"2:5 E001 expected `,` or `)`, found a number",
			"3:14 E001 expected `,` or `]`, found `;`",
			"4:7 E001 expected `,` or `)`, found `;`",
			"5:18 E001 expected `,` or `}`, found `b`",
		}},
		{"words as names", in("let match = 1;\nlet for = 2;"), []string{
			"2:5 E001 expected the name of the variable, found `match`, which is a word of the language; choose another name",
			"3:5 E001 expected the name of the variable, found `for`, which is a word of the language; choose another name",
		}},
		{"supervisor", "supervisor S {\n strategy OneForOne\n children: {\n A { restart Permanent }\n 5\n B\n }\n}", []string{
			"2:11 E001 expected `:` and the value of `strategy`, found `OneForOne`",
			"3:10 E001 no colon stands after `children`; write children { … }",
			"4:14 E001 expected `:` and the value of `restart`, found `Permanent`",
			"5:2 E001 expected a child, found a number; a child is written Name { restart: Permanent }",
		}},
		{"block comment", "/* a\nb */ fn f() { }\n", []string{
			"1:1 E007 there are no comments of the form /* … */; begin each line of the comment with //",
		}},
		{"characters", "fn f() {\n let x = “a”;\n let é = 1;\n let y\u00a0= 2;\n}\x00 // \x1b[2J\n// \u202e\n// \xff", []string{
			"2:10 E002 the character “ means nothing here; strings are written with straight quotes, \"…\" or '…'",
			"2:12 E002 the character ” means nothing here; strings are written with straight quotes, \"…\" or '…'",
			"3:6 E002 a name consists of the letters a to z and A to Z, digits and _",
			"4:7 E002 the blank U+00A0 cannot stand in a program; replace it by an ordinary blank",
			"5:2 E002 the invisible character U+0000 cannot stand in a program; remove it",
			"5:7 E002 the invisible character U+001B cannot stand in a comment; remove it",
			"6:4 E002 the invisible character U+202E cannot stand in a comment; remove it",
			"7:4 E002 this is not UTF-8; save the file as UTF-8",
		}},
		{"in a string", in("let x = \"a\x00b\u202ec\xffd\";"), []string{
			"2:11 E002 the invisible character U+0000 cannot stand in a string; in a string, write it as \\u{0}",
			"2:13 E002 the invisible character U+202E cannot stand in a string; in a string, write it as \\u{202e}",
			"2:15 E002 this is not UTF-8; save the file as UTF-8",
		}},
		{"utf-16", "\xff\xfea\x00", []string{"1:1 E002 this file is encoded in UTF-16; save it as UTF-8"}},
		{"lone carriage return", "fn f() {}\rfn g() {}", []string{"1:10 E002 the invisible character U+000D cannot stand in a program; remove it"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, diagnostics := parser.Parse(source.NewFile("", test.text))
			var got []string
			for _, d := range diagnostics {
				s := fmt.Sprintf("%v %s %s", d.Span.Position(), d.Code, d.Message)
				if d.Help != "" {
					s += "; " + d.Help
				}
				got = append(got, s)
			}
			if g, w := strings.Join(got, "\n"), strings.Join(test.want, "\n"); g != w {
				t.Errorf("got\n%s\nwant\n%s", g, w)
			}
		})
	}
}
