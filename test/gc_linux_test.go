package test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/worktree"
)

// gcProject is a project in a git repository with some garbage: that of docs/gc.md.
type gcProject struct {
	*fleet
	used *worktree.Worktree
}

// git runs git in a directory, without the configuration of the user.
func (p gcProject) git(dir string, args ...string) string {
	p.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("git %q: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func newGCProject(t *testing.T) gcProject {
	t.Helper()
	dir := project(t, agentTOML("a", "exec sleep 1000"))
	p := gcProject{fleet: fleetOf(t, dir)}
	p.git(dir, "init", "-q", "-b", "main")
	write(t, filepath.Join(dir, ".gitignore"), ".coppice/\n")
	p.git(dir, "add", "-A")
	p.git(dir, "commit", "-qm", "first")
	repo, err := worktree.Open(t.Context(), dir, worktree.Options{})
	if err != nil {
		t.Fatal(err)
	}
	create := func(task string) *worktree.Worktree {
		w, err := repo.Create(t.Context(), worktree.Attempt{Task: task, Number: 1, Base: "main"})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	p.used = create("in-use")
	t.Cleanup(func() { p.used.Release() })
	merged := create("add-search")
	p.git(merged.Path, "commit", "-q", "--allow-empty", "-m", "work")
	if err := merged.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := repo.Remove(t.Context(), merged.Attempt); err != nil {
		t.Fatal(err)
	}
	p.git(dir, "merge", "-q", "--ff-only", "refs/coppice/parked/add-search-1^")
	ended := create("fix-login")
	write(t, filepath.Join(ended.Path, "login.go"), "package login\n")
	if err := ended.Release(); err != nil {
		t.Fatal(err)
	}
	p.git(dir, "branch", "coppice/old-idea-2")
	log := filepath.Join(dir, ".coppice", "run-removed", "old")
	if err := os.MkdirAll(log, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(log, "output.log"), strings.Repeat("x", 1<<20))
	old := time.Now().Add(-8 * 24 * time.Hour)
	if err := os.Chtimes(log, old, old); err != nil {
		t.Fatal(err)
	}
	return p
}

var gcSpace = regexp.MustCompile(`\d+(\.\d+)? [KM]iB| +`)

// sameText returns a text without sizes and widths of columns.
func sameText(text string) string { return strings.TrimSpace(gcSpace.ReplaceAllString(text, " ")) }

// The example in docs/gc.md is what coppice gc prints, and its commands work.
func TestGCDoc(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(root, "docs", "gc.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	p := newGCProject(t)
	_, shown, _ := strings.Cut(page, "$ coppice gc --dry-run\n")
	shown, _, _ = strings.Cut(shown, "```")
	if out := p.do("gc", "--dry-run"); sameText(out) != sameText(shown) {
		t.Errorf("it is\n%s\nthe page shows\n%s", out, shown)
	}
	commands := 0
	for _, b := range fenced.FindAllStringSubmatch(page, -1) {
		if b[1] != "sh" {
			continue
		}
		for line := range strings.Lines(b[2]) {
			commands++
			words := strings.Fields(strings.Split(line, "#")[0])
			if words[0] == "coppice" {
				p.do(words[1:]...)
			} else {
				p.git(p.dir, words[1:]...)
			}
		}
	}
	if text, err := os.ReadFile(filepath.Join(p.dir, "login.go")); commands != 6 || string(text) != "package login\n" {
		t.Errorf("%d commands, the work is %q, %v", commands, text, err)
	}
}

// With a daemon and without, a dry run deletes nothing, and then the same is deleted. What is in use, and the
// work of a dirty worktree, are left.
func TestGC(t *testing.T) {
	t.Parallel()
	for _, daemon := range []bool{false, true} {
		p := newGCProject(t)
		if daemon {
			p.up()
		}
		report := func(args ...string) (r struct {
			Dry   bool            `json:"dry_run"`
			Items []worktree.Item `json:"items"`
			Bytes int64           `json:"bytes"`
		}) {
			t.Helper()
			if err := json.Unmarshal([]byte(p.do(append([]string{"gc", "--json"}, args...)...)), &r); err != nil {
				t.Fatal(err)
			}
			return r
		}
		for range 2 {
			if r := report("--dry-run"); !r.Dry || len(r.Items) != 4 || r.Bytes < 1<<20 {
				t.Errorf("daemon %v: %+v", daemon, r)
			}
		}
		out := p.do("gc")
		const ref = "refs/coppice/parked/fix-login-1"
		if !strings.Contains(out, "; its work is in "+ref+"\n") || !strings.Contains(out, "\n4 items, 1.") ||
			!strings.HasSuffix(out, " deleted\n") {
			t.Errorf("daemon %v:\n%s", daemon, out)
		}
		if got := p.git(p.dir, "show", ref+":login.go"); got != "package login" {
			t.Errorf("parked is %q", got)
		}
		if out := p.do("gc"); out != "nothing to delete\n" {
			t.Errorf("again:\n%s", out)
		}
		if r := report(); r.Dry || r.Items == nil || len(r.Items) != 0 {
			t.Errorf("again: %+v", r)
		}
		if _, err := os.Stat(filepath.Join(p.used.Path, ".gitignore")); err != nil {
			t.Errorf("the worktree in use: %v", err)
		}
		if daemon {
			if out := p.do("ps"); !strings.Contains(out, "running") {
				t.Errorf("the agent does not run:\n%s", out)
			}
		}
	}
}

// An agent can look, and not delete.
func TestGCOfAgent(t *testing.T) {
	t.Parallel()
	p := newGCProject(t)
	socket, err := endpoint.Path(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	agent := *p.fleet
	agent.env = []string{proc.EnvSocket + "=" + socket, proc.EnvToken + "=token", proc.EnvAgent + "=t/a"}
	if out, err := agent.try("gc"); err == nil || !strings.Contains(out, "only people can run coppice gc") {
		t.Errorf("%v: %s", err, out)
	}
	if out := agent.do("gc", "--dry-run"); !strings.Contains(out, "\n4 items, ") {
		t.Error(out)
	}
}

// A project that is in no repository, or has no commit, has only logs to delete. Nothing is made there.
func TestGCWithoutRepository(t *testing.T) {
	t.Parallel()
	for _, commands := range [][]string{nil, {"init"}} {
		p := gcProject{fleet: fleetOf(t, project(t, agentTOML("a", "exec sleep 1000")))}
		for _, c := range commands {
			p.git(p.dir, c, "-q")
		}
		if out := p.do("gc"); out != "nothing to delete\n" {
			t.Error(out)
		}
		if _, err := os.Lstat(filepath.Join(p.dir, ".coppice")); err == nil {
			t.Error("the directory of the state was made")
		}
	}
}

// A worktree with a repository in it that has work is named and left, with exit code 1.
func TestGCOfWorkThatCannotBeKept(t *testing.T) {
	t.Parallel()
	p := newGCProject(t)
	p.git(filepath.Join(p.dir, ".coppice/worktrees/fix-login-1"), "init", "-q", "sub")
	write(t, filepath.Join(p.dir, ".coppice/worktrees/fix-login-1/sub/work"), "x")
	r := launch(t, p.dir, "gc")
	if code := r.exit(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if err := r.err.String(); !strings.Contains(err, `the repository "sub" in the worktree has changes`) {
		t.Error(err)
	}
	if out := r.out.String(); !strings.Contains(out, "\n3 items, ") {
		t.Error(out)
	}
	if _, err := os.Stat(filepath.Join(p.dir, ".coppice/worktrees/fix-login-1/sub/work")); err != nil {
		t.Error(err)
	}
}
