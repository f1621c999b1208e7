package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/worktree"
)

// garbage returns the worktrees that coppice gc would delete, or deletes.
func (p pipelineProject) garbage(flags ...string) (trees []worktree.Item) {
	p.t.Helper()
	var r struct{ Items []worktree.Item }
	if err := json.Unmarshal([]byte(p.do(append([]string{"gc", "--json"}, flags...)...)), &r); err != nil {
		p.t.Fatal(err)
	}
	for _, i := range r.Items {
		if i.Kind == worktree.KindWorktree {
			trees = append(trees, i)
		}
	}
	return trees
}

// The locks of a worktree say all that coppice gc has to know of an attempt, also without a daemon. A worker that is
// alive has them. When it was killed, gc keeps the work as the next attempt would, and the task goes on.
func TestPipelineGC(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, 1)
	p.up()
	id := p.add("hang a", "--pool", "fixer")
	eventually(t, "it is at work", func() bool {
		_, err := os.Stat(filepath.Join(p.desk, "hangs"))
		return err == nil
	})
	worker := p.node(p.task(id).Claim.By).PID
	tree := filepath.Join(p.dir, ".coppice", "worktrees", id+"-1", "a.txt")
	wantLive := func(when string) {
		t.Helper()
		for _, flags := range [][]string{{"--dry-run"}, nil} {
			if all := p.garbage(flags...); len(all) != 0 {
				t.Errorf("%s: gc %q: %+v", when, flags, all)
			}
		}
		if text, err := os.ReadFile(tree); err != nil || string(text) != "old\nhalf\n" {
			t.Errorf("%s: %q, %v", when, text, err)
		}
	}
	wantLive("with a daemon")
	p.crash()
	wantLive("without a daemon")

	exectest.Signal(t, worker, syscall.SIGKILL)
	eventually(t, "its processes are gone", func() bool { return len(p.garbage("--dry-run")) == 1 })
	all := p.garbage()
	if len(all) != 1 || !strings.HasPrefix(all[0].Parked, "refs/coppice/parked/"+id) {
		t.Fatalf("%+v", all)
	}
	if text := p.git(p.dir, "show", all[0].Parked+":a.txt"); text != "old\nhalf" {
		t.Errorf("the work of the killed attempt is %q", text)
	}
	p.up()
	d := p.await(id, "done", isClosed)
	if len(d.Attempts) != 2 || d.Task.Outcome != task.Completed || p.merged(id) != 1 {
		t.Errorf("%+v", d)
	}
	if text, err := os.ReadFile(filepath.Join(p.dir, "a.txt")); err != nil || string(text) != "old\nnew\n" {
		t.Errorf("%q, %v", text, err)
	}
	p.wantClean()
}

// A pipeline can work in another repository than that of its project. What its killed workers leave there is garbage of
// the project, too.
func TestPipelineGCOfOtherRepository(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, 1)
	other := filepath.Join(t.TempDir(), "other")
	p.git(p.dir, "clone", "-q", p.dir, other)
	p.edit("protected = ", "repository = \""+other+"\"\nprotected = ")
	p.up()
	id := p.add("hang a", "--pool", "fixer")
	eventually(t, "it is at work", func() bool {
		_, err := os.Stat(filepath.Join(p.desk, "hangs"))
		return err == nil
	})
	if all := p.garbage("--dry-run"); len(all) != 0 {
		t.Errorf("the worker is alive: %+v", all)
	}
	worker := p.node(p.task(id).Claim.By).PID
	p.crash()
	exectest.Signal(t, worker, syscall.SIGKILL)
	eventually(t, "its processes are gone", func() bool { return len(p.garbage("--dry-run")) == 1 })
	all := p.garbage()
	if len(all) != 1 || !strings.HasPrefix(all[0].Name, other) {
		t.Fatalf("%+v", all)
	}
	if text := p.git(other, "show", all[0].Parked+":a.txt"); text != "old\nhalf" {
		t.Errorf("the work of the killed attempt is %q", text)
	}
	if left := p.garbage("--dry-run"); len(left) != 0 {
		t.Errorf("%+v", left)
	}
	p.up()
	p.await(id, "done", isClosed)
	if text := p.git(other, "show", "main:a.txt"); text != "old\nnew" {
		t.Errorf("%q is merged", text)
	}
}
