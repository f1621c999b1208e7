package worktree

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A worktree with a repository in it is removed only if nothing in that would be lost.
func TestRemoveNested(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(p *place, dir, origin string)
		kept string // part of the error; "" if it is removed
	}{
		"clone": {func(p *place, dir, origin string) { p.at(dir, "clone", "-q", origin, "sub") }, ""},
		"clone with a commit": {func(p *place, dir, origin string) {
			p.at(dir, "clone", "-q", origin, "sub")
			sub := filepath.Join(dir, "sub")
			p.at(sub, "-c", "user.name=x", "-c", "user.email=x", "commit", "-q", "--allow-empty", "-m", "x")
		}, "commits"},
		"dirty clone": {func(p *place, dir, origin string) {
			p.at(dir, "clone", "-q", origin, "x/sub")
			p.writeIn(dir, "x/sub/new", "x")
		}, "not committed"},
		"new repository": {func(p *place, dir, _ string) {
			p.at(dir, "init", "-q", "sub")
			p.writeIn(dir, "sub/new", "x")
		}, "not committed"},
		"ignored": {func(p *place, dir, _ string) {
			p.at(dir, "init", "-q", "ignored/sub")
			p.writeIn(dir, "ignored/sub/new", "x")
		}, ""},
		"in place of the worktree": {func(p *place, dir, _ string) {
			if err := os.Remove(filepath.Join(dir, ".git")); err != nil {
				p.Fatal(err)
			}
			p.at(dir, "init", "-q")
		}, "not committed"},
		"filters": {func(p *place, dir, origin string) {
			p.at(dir, "clone", "-q", origin, "sub")
			p.at(filepath.Join(dir, "sub"), "config", "filter.x.clean", "touch '"+p.dir+"/ran'")
		}, "filters"},
		"included filters": {func(p *place, dir, origin string) {
			p.at(dir, "clone", "-q", origin, "sub")
			p.writeIn(dir, "sub/.git/in", "[Filter \"y\"]\n\tclean = touch '"+p.dir+"/ran'\n")
			p.at(filepath.Join(dir, "sub"), "config", "include.path", "in")
		}, "filters"},
		"worktree configuration": {func(p *place, dir, origin string) {
			p.at(dir, "clone", "-q", origin, "sub")
			p.at(filepath.Join(dir, "sub"), "config", "extensions.worktreeConfig", "true")
		}, "configuration"},
		"damaged": {func(p *place, dir, _ string) { p.writeIn(dir, "sub/.git/config", "x") }, "cannot be read"},
		"submodule": {func(p *place, dir, origin string) {
			p.at(dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", origin, "sub")
			p.at(dir, "commit", "-qm", "sub")
		}, ""},
		"dirty submodule": {func(p *place, dir, origin string) {
			p.at(dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", origin, "sub")
			p.at(dir, "commit", "-qm", "sub")
			p.writeIn(dir, "sub/a", "changed")
		}, "not committed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			origin, p := newPlace(t, Options{}), newPlace(t, Options{})
			w := p.create("t", 1)
			c.do(p, w.Path, origin.dir)
			_, err := p.repo.Remove(t.Context(), w.Attempt)
			if c.kept == "" {
				if err != nil {
					t.Fatal(err)
				}
				p.gone(w)
				return
			}
			if !errors.Is(err, ErrNotKept) || !strings.Contains(err.Error(), c.kept) {
				t.Errorf("%v, expected %q", err, c.kept)
			}
			if _, err := os.Lstat(w.Path); err != nil {
				t.Error("the worktree was removed")
			}
			if _, err := os.Lstat(filepath.Join(p.dir, "ran")); err == nil {
				t.Error("a filter of the repository in the worktree ran")
			}
		})
	}
}
