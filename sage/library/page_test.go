package library_test

import (
	"os"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/sage/library"
)

// The reference in docs is current and lists all functions.
func TestPage(t *testing.T) {
	var want strings.Builder
	if err := library.WritePage(&want); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/sage/library.md")
	if err != nil || string(got) != want.String() {
		t.Errorf("docs/sage/library.md is not current, run go generate ./sage/library; %v", err)
	}
	for _, f := range library.Functions() {
		if !strings.Contains(want.String(), "`"+f.Signature+"`") {
			t.Errorf("%s is missing", f.Signature)
		}
	}
}
