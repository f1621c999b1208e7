package source_test

import (
	"testing"

	"github.com/coppice-dev/coppice/sage/source"
)

func TestPosition(t *testing.T) {
	f := source.NewFile("a.sg", "one\r\n\tzwei 世界\n\nend")
	for _, test := range []struct {
		offset int
		want   string
	}{
		{0, "a.sg:1:1"}, {3, "a.sg:1:4"}, {5, "a.sg:2:1"}, {6, "a.sg:2:2"}, {11, "a.sg:2:7"}, {14, "a.sg:2:8"}, {17, "a.sg:2:9"},
		{18, "a.sg:3:1"}, {19, "a.sg:4:1"}, {22, "a.sg:4:4"}, {99, "a.sg:4:4"}, {-1, "a.sg:1:1"},
	} {
		if got := f.Position(test.offset).String(); got != test.want {
			t.Errorf("offset %d is %s, not %s", test.offset, got, test.want)
		}
	}
	for line, want := range []string{"", "one", "\tzwei 世界", "", "end", ""} {
		if got := f.Line(line); got != want {
			t.Errorf("line %d is %q, not %q", line, got, want)
		}
	}
	if f.Lines() != 4 || source.NewFile("", "").Lines() != 1 {
		t.Errorf("%d lines", f.Lines())
	}
}

func TestSpan(t *testing.T) {
	f := source.NewFile("", "let x = 1;")
	s := f.Span(4, 5)
	if s.Source() != "x" || s.Position().String() != "1:5" || !s.Valid() || s.To(f.Span(8, 9)).Source() != "x = 1" {
		t.Errorf("%q at %v", s.Source(), s.Position())
	}
	if s.Before().Source() != "" || s.After().Start != 5 {
		t.Error("the empty spans around it are wrong")
	}
	var nowhere source.Span
	if nowhere.Valid() || nowhere.Source() != "" || nowhere.Position().String() != "-" {
		t.Errorf("nowhere is %v", nowhere.Position())
	}
}
