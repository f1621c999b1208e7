package check

import (
	"strings"
	"sync"
	"testing"

	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/library"
	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/types"
)

// TestLibrary checks that every signature of the library resolves and that overloads can be told
// apart.
func TestLibrary(t *testing.T) {
	u := newUniverse()
	seen := map[string]bool{}
	all := library.Functions()
	for i := range all {
		f := &all[i]
		if seen[f.Signature] {
			t.Errorf("%s is there twice", f.Signature)
		}
		seen[f.Signature] = true
		if f.Doc == "" || !strings.HasSuffix(f.Doc, ".") {
			t.Errorf("%s: the documentation is no sentence: %q", f.Name(), f.Doc)
		}
	}
	count := 0
	for name, fs := range u.functions {
		for _, f := range fs {
			count++
			if types.Some(f.Type, func(t *types.Type) bool { return t.Kind == types.Invalid || t.Kind == types.Var }) {
				t.Errorf("%s: %s", f.Library.Signature, f.Type)
			}
			if f.Library.Name() != f.Name {
				t.Errorf("%s is called %s", f.Library.Signature, f.Name)
			}
			for _, g := range fs {
				if f != g && len(f.Type.Elems) == len(g.Type.Elems) && (len(f.Type.Elems) == 1 || types.Equal(f.Type.Elems[0], g.Type.Elems[0])) {
					t.Errorf("%s: %s and %s cannot be told apart", name, f.Type, g.Type)
				}
			}
			if f.Library.Changes && (len(fs) > 1 || len(f.Type.Elems) < 2) {
				t.Errorf("%s changes its argument", f.Name)
			}
		}
	}
	want := len(all)
	for _, tool := range library.Tools() {
		want += len(tool.Functions)
		for _, f := range tool.Functions {
			if !strings.HasSuffix(f.Signature, " fails") {
				t.Errorf("%s.%s: what tools do can fail", tool.Name, f.Signature)
			}
		}
	}
	if count != want {
		t.Errorf("%d functions are read of %d", count, want)
	}
	for _, c := range library.Constants() {
		if u.names[c.Name] == nil || u.names[c.Name].Value != c.Value {
			t.Errorf("constant %s", c.Name)
		}
	}
}

// TestConcurrent checks programs in parallel, since they share the library.
func TestConcurrent(t *testing.T) {
	text := `fn f(xs: List<Int>) -> Option<Int> { let r = map(xs, |x| Some(x)); let e: Result<Int, Error> = Err(Error { message: "", kind: ErrorKind.User }); print(e); return first(sort(xs)); }`
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 20 {
				if _, diagnostics := Program(source.NewFile("main.sg", text), Config{}); diag.HasErrors(diagnostics) {
					t.Error(diagnostics)
				}
			}
		})
	}
	group.Wait()
}
