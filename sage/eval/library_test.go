package eval

import (
	"testing"

	"github.com/coppice-dev/coppice/sage/library"
)

// The table of the library and the natives list the same functions.
func TestLibraryTable(t *testing.T) {
	have := natives()
	listed := map[string]bool{"assert_fails": true} // compiled without a native, as its operand fails
	for _, f := range library.Functions() {
		listed[f.Name()] = true
		if have[f.Name()] == nil && f.Name() != "assert_fails" {
			t.Errorf("%s is in the table, and nothing is behind it", f.Signature)
		}
	}
	for name := range have {
		if !listed[name] {
			t.Errorf("%s is there, and not in the table", name)
		}
	}
	tools, known := toolFunctions(), map[string]bool{}
	for _, tool := range library.Tools() {
		for _, f := range tool.Functions {
			known[tool.Name+"."+f.Name()] = true
			if tools[tool.Name+"."+f.Name()] == nil {
				t.Errorf("%s.%s is in the table, and nothing is behind it", tool.Name, f.Signature)
			}
		}
	}
	for name := range tools {
		if !known[name] {
			t.Errorf("%s is there, and not in the table", name)
		}
	}
}
