package worktree

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/git/gittest"
)

func TestMain(m *testing.M) { gittest.Main(m, crashAt, crash) }

// place has a repository and its Repo for a test.
type place struct {
	*testing.T
	dir  string // the work tree
	repo *Repo
}

// newPlace makes a repository with the files a and b/c, on branch main.
func newPlace(t *testing.T, o Options) *place {
	t.Helper()
	p := &place{T: t, dir: filepath.Join(t.TempDir(), "repo")}
	p.at("", "init", "-q", "-b", "main", p.dir)
	p.at(p.dir, "config", "user.name", "Somebody")
	p.at(p.dir, "config", "user.email", "somebody@example.com")
	p.write("a", "1\n")
	p.write("b/c", "2\n")
	p.write(".gitignore", "ignored/\n*.env\n")
	p.at(p.dir, "add", "-A")
	p.at(p.dir, "commit", "-qm", "first")
	p.open(o)
	return p
}

func (p *place) open(o Options) {
	p.Helper()
	r, err := Open(p.Context(), p.dir, o)
	if err != nil {
		p.Fatal(err)
	}
	p.repo = r
}

// at runs git in a directory and returns its output without the last newline.
func (p *place) at(dir string, args ...string) string {
	p.Helper()
	return gittest.Run(p, dir, args...)
}

func (p *place) write(name, text string) { p.writeIn(p.dir, name, text) }

func (p *place) writeIn(dir, name, text string) {
	p.Helper()
	gittest.Write(p, filepath.Join(dir, name), text)
}

// create makes a worktree and returns it, not in use.
func (p *place) create(task string, n int) *Worktree {
	p.Helper()
	w, err := p.repo.Create(p.Context(), Attempt{task, n, "main"})
	if err != nil {
		p.Fatal(err)
	}
	if err := w.Release(); err != nil {
		p.Fatal(err)
	}
	return w
}

func (p *place) remove(w *Worktree) Removed {
	p.Helper()
	removed, err := p.repo.Remove(p.Context(), w.Attempt)
	if err != nil {
		p.Fatal(err)
	}
	p.gone(w)
	return removed
}

// gone fails if anything except parked references is left of a worktree.
func (p *place) gone(w *Worktree) {
	p.Helper()
	entries, err := os.ReadDir(p.repo.Dir())
	if err != nil {
		p.Fatal(err)
	}
	for _, e := range entries {
		if name, _, _ := strings.Cut(e.Name(), "."); name == w.name() {
			p.Errorf("%s is left", e.Name())
		}
	}
	if out := p.at(p.dir, "worktree", "list", "--porcelain"); strings.Contains(out, "/"+w.name()+"\n") {
		p.Errorf("git lists it still: %s", out)
	}
	if out := p.at(p.dir, "branch", "--list", w.Branch()); out != "" {
		p.Errorf("the branch is left: %s", out)
	}
}

// parked returns the parked references.
func (p *place) parked() []string {
	p.Helper()
	return strings.Fields(p.at(p.dir, "for-each-ref", "--format=%(refname)", parkedRefs))
}

// show returns the content of a file in a revision; "none" if there is none.
func (p *place) show(revision, name string) string {
	out, err := gittest.Try(p.dir, "show", revision+":"+name)
	if err != nil {
		return "none"
	}
	return out
}
