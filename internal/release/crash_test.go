package release

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/filelock"
	"github.com/coppice-dev/coppice/internal/git/gittest"
)

// crashAt names the variable that makes this program merge and kill itself. Its value is STEP|COMMIT|DIRECTORY;
// without a step the program is not killed.
const crashAt = "RELEASE_TEST_CRASH"

func crash(how string) int {
	fields := strings.SplitN(how, "|", 3)
	ctx := context.Background()
	r, err := Open(ctx, fields[2])
	if err == nil {
		r.step = func(name string) {
			if name == fields[0] {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
		}
		_, err = r.Merge(ctx, Merge{Into: "main", Commit: fields[1]})
	}
	if err != nil {
		os.Stderr.WriteString(err.Error())
		return 1
	}
	return 0
}

// process returns a process that merges a commit.
func (p *repository) process(step, commit string) *exec.Cmd {
	p.Helper()
	self, err := os.Executable()
	if err != nil {
		p.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), crashAt+"="+step+"|"+commit+"|"+p.dir)
	return cmd
}

// kill merges a commit in a process that is killed at a step.
func (p *repository) kill(step, commit string) {
	p.Helper()
	out, err := p.process(step, commit).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !exit.Sys().(syscall.WaitStatus).Signaled() {
		p.Fatalf("not killed at %q: %v %s", step, err, out)
	}
}

// local makes changes of a person, and returns a function that checks that they are there and that nothing
// else differs from main.
func (p *repository) local() (check func()) {
	p.Helper()
	p.write("a", "mine\n")
	p.write("d/1", "staged\n")
	p.git("add", "d")
	p.write("d/1", "later\n")
	p.write("untracked", "untracked")
	p.write("new/mine", "untracked")
	want := p.status()
	return func() {
		p.Helper()
		p.same("the status", p.status(), want)
		p.same("staged", p.git("show", ":d/1"), "staged")
		p.same("files", p.read("a")+p.read("d/1")+p.read("untracked")+p.read("new/mine"),
			"mine\nlater\nuntrackeduntracked")
		p.noLocks()
	}
}

// crashChange has every kind of change.
var crashChange = []string{"dir/b=theirs\n", "new/x=1", "dir/b2/c=2", "-gone", "d/2=two\n", "empty=", "gone/x=1"}

// A process that merges is killed at each step. The branch is moved with its worktree or not at all, after
// the next call, whatever that does. Until then git refuses to commit.
func TestKilled(t *testing.T) {
	t.Parallel()
	p := newRepository(t)
	var steps []string
	p.repo.step = func(name string) { steps = append(steps, name) }
	p.merge(p.attempt("t", p.first, crashChange...))
	if want := "combined locked prepared written ready moved settled"; strings.Join(steps, " ") != want {
		t.Fatalf("the steps are %q, expected %q", steps, want)
	}
	for _, step := range steps {
		for _, then := range []string{"merge", "repair", "merge another"} {
			t.Run(step+", "+then, func(t *testing.T) {
				t.Parallel()
				p := newRepository(t)
				check := p.local()
				commit := p.attempt("t", p.first, crashChange...)
				p.kill(step, commit)
				if out, err := gittest.Try(p.dir, "commit", "-qam", "x"); err == nil && step != "combined" {
					t.Errorf("git commits in between: %s", out)
				} else if step == "combined" { // the person has committed
					return
				}
				merged := step == "moved" || step == "settled"
				want := p.first
				switch then {
				case "merge":
					if m := p.merge(commit); (m.Before == commit) != merged {
						t.Errorf("%+v", m)
					}
					want = commit
				case "repair":
					if err := p.repo.Repair(t.Context()); err != nil {
						t.Fatal(err)
					}
					if merged {
						want = commit
					}
				case "merge another":
					other := p.attempt("u", p.first, "other=1")
					want = p.merge(other).Commit
					if _, err := gittest.Try(p.dir, "merge-base", "--is-ancestor", commit, want); (err == nil) != merged {
						t.Errorf("it contains the commit: %v", err == nil)
					}
				}
				p.same("main", p.git("rev-parse", "main"), want)
				check()
			})
		}
	}
}

// The process and its git are killed while git writes files, after each file. What was written is taken
// back, and what a person wrote into one of the files since is not.
func TestKilledWhileFilesAreWritten(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 4; n++ {
		p := newRepository(t)
		p.write(".gitattributes", "new/* filter=kill\ndir/* filter=kill\n")
		base := p.commitAll("attributes")
		check := p.local()
		commit := p.attempt("t", base, "dir/b=theirs\n", "-gone", "new/x=12345", "new/y=1", "new/z=1")
		pid, count := filepath.Join(t.TempDir(), "pid"), filepath.Join(t.TempDir(), "count")
		filter := filepath.Join(t.TempDir(), "filter")
		exectest.Write(t, filter, `#!/bin/sh
echo x >>`+count+`
if test "$(wc -l <`+count+`)" -eq `+itoa(int64(n))+` && test -s `+pid+`; then
	kill -9 $(cat `+pid+`) $PPID
fi
cat
`)
		p.git("config", "filter.kill.smudge", "exec "+filter)
		p.git("config", "filter.kill.clean", "cat")
		cmd := exec.Command("sh", "-c", `echo $$ >`+pid+`; exec "$0"`, p.process("", "").Path)
		cmd.Env = p.process("", commit).Env
		var exit *exec.ExitError
		if out, err := cmd.CombinedOutput(); !errors.As(err, &exit) || !exit.Sys().(syscall.WaitStatus).Signaled() {
			t.Fatalf("not killed: %v %s", err, out)
		}
		p.same("main", p.git("rev-parse", "main"), base)
		if n == 4 {
			p.same("a file that was written", p.read("dir/b"), "theirs\n")
			p.write("new/x", "mine")   // over what the merge wrote
			p.write("new/y", "")       // written in part
			os.Remove(p.dir + "/gone") // not yet, or by git
		}
		if err := os.Remove(pid); err != nil {
			t.Fatal(err)
		}
		x := index{place: p.repo.main}
		lock, err := filelock.Wait(t.Context(), x.flock(), filelock.Exclusive) // until the filter has ended, too
		if err != nil {
			t.Fatal(err)
		}
		lock.Close()
		if err := p.repo.Repair(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n == 4 {
			p.same("of a person", p.read("new/x"), "mine")
			os.Remove(p.dir + "/new/x")
		}
		p.same("files", p.read("dir/b")+p.read("gone")+p.read("new/x")+p.read("new/y")+p.read("new/z"),
			"b\ngone\nnonenonenone")
		check()
		p.merge(commit)
		check()
		p.same("files", p.read("dir/b")+p.read("gone")+p.read("new/x"), "theirs\nnone12345")
	}
}

// A process is killed at moments that have nothing to do with its steps.
func TestKilledAnytime(t *testing.T) {
	t.Parallel()
	p := newRepository(t)
	check := p.local()
	commits := 0
	for i := range 40 {
		commit := p.attempt("t"+itoa(int64(i)), p.first, "dir/file"+itoa(int64(i))+"=1", "new/x"+itoa(int64(i))+"=1")
		cmd := p.process("", commit)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(i*4)*time.Millisecond, func() { cmd.Process.Kill() })
		cmd.Wait()
		timer.Stop()
		p.merge(commit)
		commits++
		check()
		for range 2 { // at most once, also if it is merged again
			found, err := p.repo.Merged(t.Context(), "main", "t"+itoa(int64(i)), noon)
			if err != nil || len(found) != 1 || found[0].Commit != commit {
				t.Errorf("%v, %v", found, err)
			}
			p.merge(commit)
		}
	}
	p.same("commits", p.git("rev-list", "--count", "--no-merges", "main"), itoa(int64(commits+1)))
}

// A lock of the index that another git has left is not removed, and one with nonsense is an error.
func TestLockOfOthers(t *testing.T) {
	t.Parallel()
	p := newRepository(t)
	commit := p.attempt("t", p.first, "new=1")
	for _, text := range []string{"", "DIRC", magic[:10]} {
		p.write(".git/index.lock", text)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err := p.repo.Merge(ctx, Merge{Into: "main", Commit: commit})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{magic, magic + "{}",
		magic + `{"ref":"refs/heads/main","old":"--x","new":"` + commit + `"}`,
		magic + `{"ref":"--x","old":"` + p.first + `","new":"` + commit + `"}`} {
		p.write(".git/index.lock", text)
		if _, err := p.repo.Merge(t.Context(), Merge{Into: "main", Commit: commit}); err == nil ||
			!strings.Contains(err.Error(), "index.lock") {
			t.Errorf("%q: %v", text, err)
		}
	}
	os.Remove(p.dir + "/.git/index.lock")
	p.merge(commit)
	p.same("the status", p.status(), "")
}

// A git command of a killed process may still move the branch. The next merge waits for it, and then repairs
// the worktree; Repair alone does not wait.
func TestGitOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	p := newRepository(t)
	check := p.local()
	commit := p.attempt("t", p.first, crashChange...)
	p.kill("moved", commit)
	x := index{place: p.repo.main}
	lock, err := filelock.Try(x.flock(), filelock.Exclusive)
	if err != nil || lock == nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if m, err := p.repo.Merge(ctx, Merge{Into: "main", Commit: commit}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%+v, %v", m, err)
	}
	if err := p.repo.Repair(t.Context()); err != nil {
		t.Error(err)
	}
	lock.Close()
	p.merge(commit)
	check()
}
