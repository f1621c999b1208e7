package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/fakeagent"
	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/internal/spec"
)

// newRepository returns a repository with a commit that has work/a.txt and a .gitignore.
func newRepository(t *testing.T) string {
	t.Helper()
	exectest.Need(t, "git")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, "web")
	writeIn(t, dir, "work/a.txt", "committed\n")
	writeIn(t, dir, ".gitignore", ".env\n")
	writeIn(t, dir, ".worktreeinclude", ".env\n")
	run(t, dir, "init", "--quiet", "-b", "main")
	run(t, dir, "add", "-A")
	run(t, dir, "commit", "--quiet", "-m", "first")
	return dir
}

func writeIn(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := gitIn(dir, append([]string{"-c", "user.name=t", "-c", "user.email=t@t.invalid"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// fixer returns an agent whose pipeline works in a directory.
func fixer(dir string) *spec.Agent {
	var stages []pipeline.Stage
	for _, command := range []string{"claude -p", "/x/claude -p", "make test", "", "gh pr", "notify"} {
		stages = append(stages, pipeline.Stage{Command: strings.Fields(command)})
	}
	return &spec.Agent{Name: "fixer", Command: []string{"claude", "-p"}, Pipeline: &pipeline.Settings{
		Repository: dir, SetUp: []string{"/x/codex", "exec", "x"}, Writable: []string{"/cache"}, Stages: stages,
		PullRequest: &pipeline.PullRequest{Remote: "origin"},
	}}
}

// The stages of a pipeline call fakes, and may write where these keep their sessions. What others could see does not
// run. The file stays as it is.
func TestPipeline(t *testing.T) {
	t.Parallel()
	dir := newRepository(t)
	s := open(t, "ok")
	var notes []string
	s.Note = func(text string) { notes = append(notes, text) }
	a, before := fixer(filepath.Join(dir, "work")), fixer(filepath.Join(dir, "work"))
	declared := a.Pipeline
	for range 2 { // the file may be read again
		a.Pipeline = declared
		if err := s.agent("t/fixer", a); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(declared, before.Pipeline) {
		t.Errorf("the declaration was changed: %+v", declared)
	}
	got, fake := a.Pipeline, s.fake("claude")
	if got.Stages[0].Command[0] != fake || got.Stages[1].Command[0] != fake || a.Command[0] != fake ||
		got.SetUp[0] != s.fake("codex") || got.Stages[2].Command[0] != "make" ||
		got.Stages[4].Command != nil || got.Stages[5].Command != nil || got.PullRequest != nil {
		t.Errorf("%+v, %+v", a, got)
	}
	if !reflect.DeepEqual(got.Writable, []string{"/cache", s.Dir}) || strings.HasPrefix(s.copies, s.Dir+"/") {
		t.Errorf("stages may write to %q, the copies are in %s", got.Writable, s.copies)
	}
	if expected := filepath.Join(s.copies, "1-web", "work"); got.Repository != expected {
		t.Errorf("it works in %s, expected %s", got.Repository, expected)
	}
	if len(notes) != 4 || !strings.Contains(notes[0], "t/fixer works in a copy of "+dir) ||
		!strings.Contains(notes[1], "no pull requests") || !strings.Contains(notes[2], "command of release") ||
		!strings.Contains(notes[3], "command of archive") {
		t.Errorf("%q", notes)
	}
	a = &spec.Agent{Pipeline: &pipeline.Settings{Repository: dir}}
	if err := s.agent("t/other", a); err != nil {
		t.Fatal(err)
	}
	if a.Pipeline.Repository != filepath.Join(s.copies, "1-web") {
		t.Errorf("the repository was copied twice: %s", a.Pipeline.Repository)
	}
	if confined := landlock.Supported() == nil; (a.Pipeline.Writable != nil) != confined {
		t.Errorf("%q, can be enforced: %v", a.Pipeline.Writable, confined)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	run(t, dir, "init", "--quiet", empty)
	err := s.agent("t/empty", &spec.Agent{Pipeline: &pipeline.Settings{Repository: empty}})
	if err == nil || !strings.Contains(err.Error(), "copying the repository "+empty) {
		t.Errorf("a repository without a commit: %v", err)
	}
	if left, err := os.ReadDir(s.copies); err != nil || len(left) != 1 {
		t.Errorf("%v are left, %v", left, err)
	}
	err = s.agent("t/none", &spec.Agent{Pipeline: &pipeline.Settings{Repository: t.TempDir()}})
	if err == nil || !strings.Contains(err.Error(), "not a git repository") {
		t.Errorf("outside of a repository: %v", err)
	}
}

// A copy has the branches and tags of the repository and what was committed, but no remote and nothing of attempts.
func TestCopy(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	writeIn(t, home, ".gitconfig", "[clone]\n\tdefaultRemoteName = upstream\n")
	dir := newRepository(t)
	for _, ref := range []string{
		"heads/coppice/web-x4k-1", "coppice/parked/web-x4k", "remotes/origin/main", "tags/v1", "heads/b",
	} {
		run(t, dir, "update-ref", "refs/"+ref, "HEAD")
	}
	run(t, dir, "remote", "add", "origin", "/nowhere")
	writeIn(t, home, "exclude", "/cache/\n")
	exclude := filepath.Join(dir, ".git", "info", "exclude")
	if err := errors.Join(os.Remove(exclude), os.Symlink(filepath.Join(home, "exclude"), exclude)); err != nil {
		t.Fatal(err)
	}
	writeIn(t, dir, "work/a.txt", "not committed\n")
	writeIn(t, dir, "new.txt", "not added\n")
	writeIn(t, dir, ".env", "KEY=1\n")
	for _, from := range []string{dir, filepath.Join(filepath.Dir(dir), "linked")} {
		branch := "main"
		if from != dir {
			branch = "side"
			run(t, dir, "worktree", "add", "--quiet", "-b", branch, from)
			writeIn(t, from, ".env", "KEY=1\n")
		}
		r, err := copyRepository(from, filepath.Join(t.TempDir(), "copy"))
		if err != nil {
			t.Fatal(err)
		}
		var refs []string
		for _, ref := range strings.Fields(run(t, r.dir, "for-each-ref", "--format=%(refname)")) {
			refs = append(refs, strings.TrimPrefix(ref, "refs/"))
		}
		expected := []string{"heads/b", "heads/main", "remotes/origin/main", "tags/v1"}
		if from != dir {
			expected = []string{"heads/b", "heads/main", "heads/side", "remotes/origin/main", "tags/v1"}
		}
		if !reflect.DeepEqual(refs, expected) {
			t.Errorf("%s: %q, expected %q", from, refs, expected)
		}
		if out := run(t, r.dir, "symbolic-ref", "--short", "HEAD") + run(t, r.dir, "status", "--porcelain") +
			run(t, r.dir, "remote"); out != branch {
			t.Errorf("%s: %q", from, out)
		}
		for name, expected := range map[string]string{"work/a.txt": "committed\n", "new.txt": "", ".env": "KEY=1\n"} {
			if text, _ := os.ReadFile(filepath.Join(r.dir, name)); string(text) != expected {
				t.Errorf("%s: %s has %q", from, name, text)
			}
		}
		if out := run(t, r.dir, "check-ignore", "--no-index", "cache/x"); out != "cache/x" {
			t.Error(out)
		}
		if r.hasChanged() {
			t.Error("it has changed")
		}
	}
}

// A copy that has changed stays, and is named; everything else is removed.
func TestCloseKeepsResults(t *testing.T) {
	t.Parallel()
	p, err := fakeagent.Parse("ok")
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(p, "/usr/bin/coppice")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { os.RemoveAll(s.copies) }()
	for _, name := range []string{"t/one", "t/two"} {
		if err := s.agent(name, fixer(newRepository(t))); err != nil {
			t.Fatal(err)
		}
	}
	result := filepath.Join(s.copies, "2-web")
	run(t, result, "commit", "--quiet", "--allow-empty", "-m", "merged")
	sum := strings.Split(s.Summary(), "\n")
	if len(sum) != 2 || !strings.HasPrefix(sum[0], "fakes: no calls") || !strings.HasSuffix(sum[1], ": "+result) {
		t.Errorf("%q", sum)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(s.Dir); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", s.Dir, err)
	}
	if left, err := os.ReadDir(s.copies); err != nil || len(left) != 1 || left[0].Name() != "2-web" {
		t.Errorf("%v are left, %v", left, err)
	}
	if out := run(t, result, "log", "-1", "--format=%s"); out != "merged" {
		t.Error(out)
	}
}
