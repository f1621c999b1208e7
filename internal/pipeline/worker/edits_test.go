package worker

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/pipeline/attempt"
	"github.com/coppice-dev/coppice/internal/worktree"
)

// The files in a prompt are those of the worktree, whatever a plan names.
func TestShown(t *testing.T) {
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree")
	for name, text := range map[string]string{
		"secret": "outside", "tree/a.txt": "text\n", "tree/sub/b.txt": "below", "tree/.git/config": "git",
		"tree/large": strings.Repeat("x", 2*attempt.MaxShown),
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"link": "../secret", "inside": "a.txt", "up": ".."} {
		if err := os.Symlink(to, filepath.Join(tree, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(tree, "pipe"), 0o600); err != nil { // reading it would wait for ever
		t.Fatal(err)
	}
	a := &run{site: &site{tree: &worktree.Worktree{Path: tree}}}
	for name, want := range map[string]attempt.File{
		"a.txt":           {Text: "text\n"},
		"./sub/../a.txt":  {Text: "text\n"},
		"sub/b.txt":       {Text: "below"},
		"new.txt":         {Note: "it does not exist"},
		"../secret":       {Note: "it cannot be shown"},
		dir + "/secret":   {Note: "it cannot be shown"},
		"link":            {Note: "it cannot be shown"},
		"up/secret":       {Note: "it cannot be shown"},
		"inside":          {Note: "it cannot be shown"},
		"pipe":            {Note: "it cannot be shown"},
		"sub":             {Note: "it cannot be shown"},
		".git/config":     {Note: "it cannot be shown"},
		"sub/../.git/x":   {Note: "it cannot be shown"},
		"a\x00b":          {Note: "it cannot be shown"},
		"":                {Note: "it cannot be shown"},
		"a.txt/../../etc": {Note: "it cannot be shown"},
	} {
		want.Path = name
		if got := a.shown([]string{name}); len(got) != 1 || got[0] != want {
			t.Errorf("%q: %+v, expected %+v", name, got, want)
		}
	}
	if got := a.shown([]string{"large"}); len(got[0].Text) != attempt.MaxShown+1 {
		t.Errorf("%d bytes of a large file", len(got[0].Text))
	}
	if got := a.shown(make([]string, 1000)); len(got) != maxShown {
		t.Errorf("%d files", len(got))
	}
}
