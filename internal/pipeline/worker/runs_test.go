package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/change/integrity"
)

func TestRunStore(t *testing.T) {
	t.Parallel()
	s, err := openRuns(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	argv, setUp := []string{"make", "test"}, []string{"npm", "ci"}
	want := testRun{Failed: "exit code 1", Results: integrity.Results{"a": integrity.Failed}, argv: argv}
	if err := s.save("tree", setUp, want); err != nil {
		t.Fatal(err)
	}
	got, ok, err := s.load("tree", argv, setUp)
	if d := cmp.Diff(want, got, cmp.AllowUnexported(testRun{})); d != "" || !ok || err != nil {
		t.Errorf("%v, %v: %s", ok, err, d)
	}
	for name, of := range map[string][3]string{
		"another tree": {"other", "make test", "npm ci"}, "another command": {"tree", "make check", "npm ci"},
		"another set-up": {"tree", "make test", "npm install"}, "words elsewhere": {"tree", "make", "test npm ci"},
	} {
		if _, ok, err := s.load(of[0], strings.Fields(of[1]), strings.Fields(of[2])); ok || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}

	// A damaged file is an error that names it, and no result.
	name := s.file("tree", argv, setUp)
	for _, text := range []string{"", `{"failed":`, `[]`} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, ok, err := s.load("tree", argv, setUp); ok || err == nil || !strings.Contains(err.Error(), name) ||
			got.Failed != "" {
			t.Errorf("%q: %v, %v, %v", text, got, ok, err)
		}
	}
}

// Of many runs the last ones are kept.
func TestRunStoreIsBounded(t *testing.T) {
	t.Parallel()
	s, err := openRuns(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	argv := []string{"make"}
	began := time.Now().Add(-time.Hour)
	for i := range maxRuns + 10 {
		tree := fmt.Sprint(i)
		if err := s.save(tree, nil, testRun{argv: argv}); err != nil {
			t.Fatal(err)
		}
		at := began.Add(time.Duration(i) * time.Second)
		if err := os.Chtimes(s.file(tree, argv, nil), at, at); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil || len(entries) != maxRuns {
		t.Errorf("%d runs, %v", len(entries), err)
	}
	_, first, _ := s.load("9", argv, nil)
	_, last, _ := s.load(fmt.Sprint(maxRuns+9), argv, nil)
	if first || !last {
		t.Errorf("the first ones are there: %v, the last one is: %v", first, last)
	}
}

// The store is in a directory of this user alone.
func TestRunStoreRefusesLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "coppice-tests")); err != nil {
		t.Fatal(err)
	}
	if _, err := openRuns(dir); err == nil {
		t.Error("a link is followed")
	}
}
