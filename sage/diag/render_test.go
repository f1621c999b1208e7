package diag_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/source"
)

// at makes a diagnostic about the part of the text between « and ».
func at(text, message string) diag.Diagnostic {
	before, rest, _ := strings.Cut(text, "«")
	about, after, _ := strings.Cut(rest, "»")
	f := source.NewFile("app.sg", before+about+after)
	return diag.Diagnostic{Span: f.Span(len(before), len(before)+len(about)), Code: "E061", Message: message}
}

func TestWrite(t *testing.T) {
	tests := []struct {
		name string
		d    diag.Diagnostic
		want string
	}{
		{"plain", at("a\nlet x = «yy»;\n", "unknown"), `
error[E061]: unknown
 --> app.sg:2:9
  |
2 | let x = yy;
  |         ^^
`},
		{"nothing there", at("let x = 1«»", "expected ;"), `
error[E061]: expected ;
 --> app.sg:1:10
  |
1 | let x = 1
  |          ^
`},
		{"tabs", at("\t\tx\t«y»", "tab"), `
error[E061]: tab
 --> app.sg:1:5
  |
1 |         x   y
  |             ^
`},
		{"wide", at(`let 你好 = «世界»;`, "wide"), `
error[E061]: wide
 --> app.sg:1:10
  |
1 | let 你好 = 世界;
  |            ^^^^
`},
		{"several lines", at("a {«\n b\n»}", "lines"), `
error[E061]: lines
 --> app.sg:1:4
  |
1 | a {
  |    ^
`},
		{"carriage return", at("a «b»\r\nc\r\n", "crlf"), `
error[E061]: crlf
 --> app.sg:1:3
  |
1 | a b
  |   ^
`},
		{"end of file", at("a\n«»", "end"), `
error[E061]: end
 --> app.sg:2:1
  |
2 | 
  | ^
`},
		{"escape sequence", at("\x1b[2Ja \u202e «b»\xff", "hostile \x1b[31m"), `
error[E061]: hostile <U+001B>[31m
 --> app.sg:1:9
  |
1 | <U+001B>[2Ja <U+202E> b<FF>
  |                       ^
`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var b strings.Builder
			if err := diag.Write(&b, []diag.Diagnostic{test.d}, false); err != nil {
				t.Fatal(err)
			}
			got := strings.ReplaceAll(b.String(), " | \n", " |\n")
			want := strings.ReplaceAll(test.want[1:], " | \n", " |\n")
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestWriteRelated(t *testing.T) {
	f := source.NewFile("app.sg", strings.Repeat("\n", 9)+"agent A {}\nagent A {}\n")
	d := diag.Diagnostic{
		Span: f.Span(26, 27), Severity: diag.Warning, Message: "A is declared twice", Help: "rename one\nor remove it",
		Related: []diag.Related{{Span: f.Span(15, 16), Message: "it is declared here first"}},
	}
	var b strings.Builder
	if err := diag.Write(&b, []diag.Diagnostic{d, d}, false); err != nil {
		t.Fatal(err)
	}
	one := `warning: A is declared twice
  --> app.sg:11:7
   |
11 | agent A {}
   |       ^
   = it is declared here first:
  --> app.sg:10:7
   |
10 | agent A {}
   |       -
   = help: rename one
   =       or remove it
`
	if got := b.String(); got != one+"\n"+one {
		t.Errorf("got\n%s", got)
	}
	b.Reset()
	_ = diag.Write(&b, []diag.Diagnostic{d}, true)
	if !strings.Contains(b.String(), "\x1b[1;33mwarning\x1b[0m") {
		t.Errorf("no colour in %q", b.String())
	}
}

func TestWriteLongLine(t *testing.T) {
	long := strings.Repeat("好 x ", 1<<20)
	d := at(long+"«"+"here"+"»"+long, "long")
	var b strings.Builder
	_ = diag.Write(&b, []diag.Diagnostic{d}, false)
	lines := strings.Split(b.String(), "\n")
	if len(b.String()) > 2000 || !strings.Contains(lines[3], "…") || !strings.Contains(lines[3], "here") {
		t.Errorf("got %q", b.String())
	}
}

func FuzzWrite(f *testing.F) {
	f.Add("let x = \x1b[2J;\n\t你", 3, 9)
	f.Add("\xff\xfe\u202e\r", 0, 4)
	f.Fuzz(func(t *testing.T, text string, start, end int) {
		file := source.NewFile(text, text)
		if start < 0 || end < start || end > len(text) {
			return
		}
		var b strings.Builder
		_ = diag.Write(&b, []diag.Diagnostic{{Span: file.Span(start, end), Message: text, Help: text}}, false)
		out := b.String()
		if !utf8.ValidString(out) {
			t.Errorf("not UTF-8: %q", out)
		}
		for _, r := range out {
			if r != '\n' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
				t.Errorf("%q is shown in %q", r, out)
			}
		}
	})
}

func TestSort(t *testing.T) {
	a, b := source.NewFile("a", "xx"), source.NewFile("b", "xx")
	ds := []diag.Diagnostic{{Span: b.Span(0, 0), Message: "3"}, {Span: a.Span(1, 1), Message: "2"}, {Span: a.Span(0, 1), Message: "1"}}
	diag.Sort(ds)
	if got := ds[0].Message + ds[1].Message + ds[2].Message; got != "123" {
		t.Errorf("got %s", got)
	}
	if !diag.HasErrors(ds) || diag.HasErrors([]diag.Diagnostic{{Severity: diag.Warning}}) {
		t.Error("HasErrors is wrong")
	}
}
