package fakeagent

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/exectest"
)

// A fake commits in a linked worktree, and nowhere else.
func TestCommit(t *testing.T) {
	exectest.Need(t, "git")
	t.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
	t.Setenv("GIT_CEILING_DIRECTORIES", "/")
	main, tree := t.TempDir(), filepath.Join(t.TempDir(), "tree")
	run := func(dir string, args ...string) string {
		t.Helper()
		out, err := git(dir, args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if err := commit(main, agentcli.Claude); err == nil {
		t.Error("it commits outside of a repository")
	}
	run(main, "init", "--quiet")
	run(main, "-c", "user.name=t", "-c", "user.email=t@t.invalid", "commit", "--quiet", "--allow-empty", "-m", "first")
	run(main, "worktree", "add", "--quiet", "-b", "work", tree)
	if err := commit(main, agentcli.Claude); err == nil || !strings.Contains(err.Error(), "not a linked git worktree") {
		t.Errorf("it commits at the branch of a person: %v", err)
	}
	if err := commit(tree, agentcli.Codex); err != nil {
		t.Error(err)
	}
	log := run(main, "log", "--format=%s", "--all", "--not", "HEAD")
	if log != "An empty commit of a fake of codex in tree" {
		t.Errorf("the commits: %q", log)
	}
}
