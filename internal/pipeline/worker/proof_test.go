package worker

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/change"
)

// Tests of a change are placed and removed again; nothing is written through a link that is in the way.
func TestPlace(t *testing.T) {
	t.Parallel()
	dir, elsewhere := t.TempDir(), t.TempDir()
	outside := filepath.Join(elsewhere, "x_test.go")
	for name, text := range map[string]string{
		filepath.Join(dir, "a_test.go"): "old", filepath.Join(dir, "gone_test.go"): "gone", outside: "outside",
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	rules, err := change.NewRules(change.Evolution, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	file := func(id string, m change.Mode) change.Side { return change.Side{ID: id, Mode: m} }
	c := &change.Change{Files: []change.File{
		{Path: "a_test.go", Status: change.Modified, Old: file("old", change.Regular),
			New: file("new", change.Executable)},
		{Path: "code.go", Status: change.Added, New: file("new", change.Regular)},
		{Path: "gone_test.go", Status: change.Deleted, Old: file("gone", change.Regular)},
		{Path: "sub/deep/b_test.go", OldPath: "code.go", Status: change.Renamed, Old: file("old", change.Regular),
			New: file("new", change.Regular)},
		{Path: "c_test.go", OldPath: "a_test.go", Status: change.Copied, Old: file("old", change.Regular),
			New: change.Side{Mode: change.Symlink, Target: "a_test.go"}},
	}}
	tests, contents := testSides(c, rules), map[string]string{"old": "old", "new": "new", "gone": "gone"}
	want := func(what string, want map[string]string) {
		t.Helper()
		got := map[string]string{}
		for _, name := range []string{"a_test.go", "code.go", "gone_test.go", "sub/deep/b_test.go", "c_test.go"} {
			if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
				got[name] = string(text)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", what, d)
		}
	}
	if err := place(dir, tests, contents, func(t testSide) change.Side { return t.after }); err != nil {
		t.Fatal(err)
	}
	want("after", map[string]string{"a_test.go": "new", "sub/deep/b_test.go": "new", "c_test.go": "new"})
	if err := place(dir, tests, contents, func(t testSide) change.Side { return t.before }); err != nil {
		t.Fatal(err)
	}
	want("before", map[string]string{"a_test.go": "old", "gone_test.go": "gone"})

	// A test that has run may have put links into the directory.
	if err := os.Remove(filepath.Join(dir, "sub", "deep")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(dir, "sub", "deep")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "a_test.go")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "a_test.go")); err != nil {
		t.Fatal(err)
	}
	if err := place(dir, tests, contents, func(t testSide) change.Side { return t.after }); err == nil {
		t.Error("a link out of the directory was followed")
	}
	for _, name := range []string{outside, filepath.Join(elsewhere, "b_test.go")} {
		text, err := os.ReadFile(name)
		if name == outside && string(text) != "outside" || name != outside && err == nil {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}
