package syntax_test

import (
	"os"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax/parser"
	"github.com/coppice-dev/coppice/sage/syntax/printer"
)

// lines returns a program of at least n lines, repeating the documentation's example.
func lines(tb testing.TB, n int) string {
	page, err := os.ReadFile("testdata/page/guardian.sg")
	if err != nil {
		tb.Fatal(err)
	}
	one := string(page)
	return strings.Repeat(one, n/strings.Count(one, "\n")+1)
}

func BenchmarkParse10000Lines(b *testing.B) {
	text := lines(b, 10_000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, diagnostics := parser.Parse(source.NewFile("x.sg", text)); len(diagnostics) > 0 {
			b.Fatal(diagnostics[0])
		}
	}
}

func BenchmarkScan10000Lines(b *testing.B) {
	text := lines(b, 10_000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		parser.Scan(source.NewFile("x.sg", text))
	}
}

func BenchmarkFormat10000Lines(b *testing.B) {
	text := lines(b, 10_000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, diagnostics := printer.Format(source.NewFile("x.sg", text)); len(diagnostics) > 0 {
			b.Fatal(diagnostics[0])
		}
	}
}
