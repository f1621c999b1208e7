package worktree

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	p := newPlace(t, Options{})
	empty, none := t.TempDir(), t.TempDir()
	p.at("", "init", "-q", empty)
	for dir, want := range map[string]error{
		empty: ErrNoCommit, none: ErrNotRepo, filepath.Join(none, "x"): os.ErrNotExist,
	} {
		if _, err := Open(t.Context(), dir, Options{}); !errors.Is(err, want) {
			t.Errorf("%s: %v, expected %v", dir, err, want)
		}
	}
	if _, err := Open(t.Context(), p.dir, Options{Dir: filepath.Join(p.dir, "b")}); err == nil {
		t.Error("worktrees are put among tracked files")
	}
	for _, o := range []Options{
		{Ports: PortRange{0, 10, 1}}, {Ports: PortRange{1, 65536, 1}}, {Ports: PortRange{5, 6, 3}},
		{SetUp: []string{"x"}},
	} {
		if _, err := Open(t.Context(), p.dir, o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(none, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), p.dir, Options{Dir: link}); err == nil {
		t.Error("worktrees are put behind a link")
	}
	p.create("t", 1)
	if out := p.at(p.dir, "status", "--porcelain"); out != "" {
		t.Errorf("git sees the worktrees: %s", out)
	}
	p.open(Options{}) // again
	exclude, err := os.ReadFile(filepath.Join(p.dir, ".git/info/exclude"))
	if n := strings.Count(string(exclude), "/.coppice/worktrees/\n"); n != 1 {
		t.Errorf("excluded %d times: %s, %v", n, exclude, err)
	}
}

// A bare repository works, and one that is opened in a linked worktree.
func TestOpenOtherRepos(t *testing.T) {
	t.Parallel()
	p := newPlace(t, Options{})
	bare, linked := filepath.Join(t.TempDir(), "bare.git"), filepath.Join(t.TempDir(), "linked")
	p.at("", "clone", "-q", "--bare", p.dir, bare)
	p.at(p.dir, "worktree", "add", "-q", "-b", "other", linked)
	if _, err := Open(t.Context(), bare, Options{}); err == nil {
		t.Error("a bare repository has a default directory")
	}
	sha256 := t.TempDir()
	p.at("", "init", "-q", "-b", "main", "--object-format=sha256", sha256)
	p.at(sha256, "-c", "user.name=x", "-c", "user.email=x", "commit", "-q", "--allow-empty", "-m", "first")
	for dir, o := range map[string]Options{bare: {Dir: filepath.Join(t.TempDir(), "trees")}, linked: {}, sha256: {}} {
		other := &place{T: t, dir: dir}
		other.open(o)
		w := other.create("t", 1)
		other.writeIn(w.Path, "new", "x")
		if removed := other.remove(w); other.show(removed.Parked, "new") != "x" {
			t.Errorf("%s: %+v", dir, removed)
		}
	}
}

func TestCreate(t *testing.T) {
	t.Parallel()
	p := newPlace(t, Options{})
	a := Attempt{"Fix: the login", 3, "main"}
	w, err := p.repo.Create(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Release()
	first := p.at(p.dir, "rev-parse", "main")
	name := filepath.Base(w.Path)
	if w.Attempt != a || w.Commit != first || w.Branch() != "coppice/"+name ||
		!strings.HasPrefix(name, "fix-the-login-") || !strings.HasSuffix(name, "-3") ||
		filepath.Dir(w.Path) != filepath.Join(p.dir, ".coppice/worktrees") {
		t.Errorf("%+v", w)
	}
	if got := p.at(w.Path, "status", "--porcelain=v2", "--branch"); !strings.Contains(got, "branch.head "+w.Branch()) ||
		strings.Contains(got, "\n1 ") {
		t.Errorf("status: %s", got)
	}
	if text, err := os.ReadFile(filepath.Join(w.Path, "b/c")); string(text) != "2\n" {
		t.Errorf("b/c: %q, %v", text, err)
	}
	// It is the same worktree, also when the branch of the base has moved.
	p.write("a", "moved")
	p.at(p.dir, "commit", "-qam", "second")
	for _, base := range []string{"main", first} {
		again, err := p.repo.Create(t.Context(), Attempt{a.Task, a.Number, base})
		if err != nil || again.Path != w.Path || again.Commit != first {
			t.Errorf("base %s: %+v, %v", base, again, err)
			continue
		}
		if err := again.Release(); err != nil {
			t.Error(err)
		}
	}
	for _, other := range []Attempt{
		{a.Task, a.Number, "HEAD"}, {strings.TrimSuffix(name, "-3"), 3, "main"}, // another base, another task
	} {
		if _, err := p.repo.Create(t.Context(), other); !errors.Is(err, ErrExists) {
			t.Errorf("%v: %v", other, err)
		}
	}
	for _, bad := range []Attempt{{"", 1, "main"}, {"t", 0, "main"}, {strings.Repeat("x", maxTask+1), 1, "main"},
		{"t", 1, "nowhere"}, {"t", 1, "--help"}, {"t", 1, "-x"}, {"t", 1, "main:a"},
		{"\xff", 1, "main"}, {"t", 1, "\xff"}} {
		if w, err := p.repo.Create(t.Context(), bad); err == nil {
			t.Errorf("%v: %+v", bad, w)
		}
	}
	p.at(p.dir, "branch", "coppice/taken-1")
	if _, err := p.repo.Create(t.Context(), Attempt{"taken", 1, "main"}); !errors.Is(err, ErrExists) {
		t.Errorf("a branch of the user is taken: %v", err)
	}
	if err := os.Mkdir(filepath.Join(p.repo.Dir(), "taken-2"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := p.repo.Create(t.Context(), Attempt{"taken", 2, "main"}); !errors.Is(err, ErrExists) {
		t.Errorf("a directory is taken: %v", err)
	}
}

// A task of any name has a directory of its own in the right place.
func TestCreateHostileNames(t *testing.T) {
	t.Parallel()
	p := newPlace(t, Options{})
	seen := map[string]bool{}
	for _, task := range []string{
		"../../etc", "/etc/passwd", "..", ".", "-rf", "--upload-pack=x", "a.lock", "a\nb", "a\x00b", "con",
		"COM1", "@{-1}", "a~1^2:3", "日本", "$(touch x)", "`touch x`", "; rm -rf /", strings.Repeat("long ", 800),
		"A", "a", " ",
		"refs/heads/main", "HEAD", "repo.lock",
	} {
		w := p.create(task, 1)
		if filepath.Dir(w.Path) != p.repo.Dir() || seen[w.Path] || len(filepath.Base(w.Path)) > 50 {
			t.Errorf("%q is in %s", task, w.Path)
		}
		seen[w.Path] = true
		if err := p.repo.Check(t.Context(), w.Attempt); err != nil {
			t.Error(err)
		}
	}
	all, err := p.repo.List(t.Context())
	if err != nil || len(all) != len(seen) {
		t.Errorf("%d of %d are listed, %v", len(all), len(seen), err)
	}
	for _, s := range all {
		if s.InUse || s.Problem != "" {
			t.Errorf("%+v", s)
		}
		p.remove(&Worktree{Attempt: s.Attempt, Path: s.Path})
	}
}

// Twenty attempts on one repository are made and removed at the same time, each by its own Repo.
func TestConcurrently(t *testing.T) {
	t.Parallel()
	p := newPlace(t, Options{Ports: PortRange{20000, 40000, 2}})
	var group sync.WaitGroup
	var mu sync.Mutex
	ports := map[int]string{}
	for i := range 20 {
		group.Go(func() {
			r, err := Open(t.Context(), p.dir, p.repo.options)
			if err != nil {
				t.Error(err)
				return
			}
			a := Attempt{fmt.Sprintf("task %d", i/2), i%2 + 1, "main"}
			w, err := r.Create(t.Context(), a)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			for _, port := range w.Ports {
				if ports[port] != "" {
					t.Errorf("port %d is that of %s and %s", port, ports[port], w.Path)
				}
				ports[port] = w.Path
			}
			mu.Unlock()
			if err := r.Check(t.Context(), a); err != nil {
				t.Error(err)
			}
			if i%2 == 0 {
				if err := os.WriteFile(filepath.Join(w.Path, "new"), []byte(a.Task), 0o644); err != nil {
					t.Error(err)
				}
			}
			mu.Lock()
			for _, port := range w.Ports {
				delete(ports, port)
			}
			mu.Unlock()
			if err := w.Release(); err != nil {
				t.Error(err)
			}
			removed, err := r.Remove(t.Context(), a)
			if err != nil || (removed.Parked != "") != (i%2 == 0) {
				t.Errorf("%s: %+v, %v", a, removed, err)
			}
			if i%2 == 0 && p.show(removed.Parked, "new") != a.Task {
				t.Errorf("%s has %q", removed.Parked, p.show(removed.Parked, "new"))
			}
		})
	}
	group.Wait()
	if out := p.at(p.dir, "worktree", "list"); strings.Count(out, "\n") != 0 {
		t.Errorf("left: %s", out)
	}
	p.at(p.dir, "fsck", "--strict")
}

// Concurrent calls for one attempt make one worktree.
func TestConcurrentlyTheSame(t *testing.T) {
	t.Parallel()
	p := newPlace(t, Options{})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			w, err := p.repo.Create(t.Context(), Attempt{"t", 1, "main"})
			if err != nil {
				t.Error(err)
				return
			}
			defer w.Release()
			if _, err := os.Stat(filepath.Join(w.Path, "a")); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	p.remove(&Worktree{Attempt: Attempt{Task: "t", Number: 1}})
}

// Programs that the configuration of the repository names do not run, except for filters, without
// which files would be wrong.
func TestNoHooks(t *testing.T) {
	t.Parallel()
	p := newPlace(t, Options{})
	ran := filepath.Join(t.TempDir(), "ran")
	script := "#!/bin/sh\necho \"$0\" >>'" + ran + "'\ncat\nexit 0\n"
	evil := filepath.Join(t.TempDir(), "evil")
	for _, hook := range []string{
		"post-checkout", "pre-commit", "post-commit", "reference-transaction", "post-index-change", "commit-msg",
		"prepare-commit-msg", "post-rewrite",
	} {
		p.write(".git/hooks/"+hook, script)
	}
	p.writeIn(filepath.Dir(evil), "evil", script)
	hooks, err := filepath.Glob(filepath.Join(p.dir, ".git/hooks/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(hooks, evil) {
		if err := os.Chmod(file, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.write(".gitattributes", "*.up filter=up\n*.txt diff=evil\n")
	p.write("word.up", "abc")
	for _, s := range []string{"filter.up.clean=tr a-z A-Z", "filter.up.smudge=tr A-Z a-z", "filter.up.required=true"} {
		name, value, _ := strings.Cut(s, "=")
		p.at(p.dir, "config", name, value)
	}
	p.at(p.dir, "-c", "core.hooksPath=/dev/null", "add", "-A")
	p.at(p.dir, "-c", "core.hooksPath=/dev/null", "commit", "-qm", "second")
	for _, name := range []string{
		"core.fsmonitor", "core.pager", "core.editor", "diff.external", "diff.evil.command", "diff.evil.textconv",
		"core.sshCommand", "gpg.program", "core.askPass", "pager.status", "uploadpack.packObjectsHook",
	} {
		p.at(p.dir, "config", name, evil)
	}
	p.at(p.dir, "config", "commit.gpgSign", "true")
	if err := os.Remove(ran); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	w := p.create("t", 1)
	if text, err := os.ReadFile(filepath.Join(w.Path, "word.up")); string(text) != "abc" {
		t.Errorf("the file is checked out as %q, %v", text, err)
	}
	p.writeIn(w.Path, "word.up", "xyz")
	p.writeIn(w.Path, "new.txt", "x")
	if _, err := p.repo.List(t.Context()); err != nil {
		t.Error(err)
	}
	removed := p.remove(w)
	if err := func() error { _, err := p.repo.Garbage(t.Context(), GarbageOptions{}); return err }(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(ran); err == nil {
		t.Errorf("these ran: %s", text)
	}
	if got := p.show(removed.Parked, "word.up"); got != "XYZ" {
		t.Errorf("the file is parked as %q", got)
	}
}
