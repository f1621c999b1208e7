package release

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// killMove starts to move main to a commit, as a process of this package does, and kills its git when that has locked
// the branch and HEAD. Without a record it is the git of a person.
func (p *repository) killMove(commit string, record bool) {
	p.Helper()
	l, err := p.repo.lockBranch(p.Context(), "refs/heads/main")
	if err != nil {
		p.Fatal(err)
	}
	defer l.Close()
	if record {
		if err := l.begin(moving{commit}); err != nil {
			p.Fatal(err)
		}
	}
	cmd := exec.Command("git", "-C", p.dir, "update-ref", "--stdin")
	in, err := cmd.StdinPipe()
	if err != nil {
		p.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = io.WriteString(in, "start\nupdate refs/heads/main "+commit+"\nprepare\n")
	}
	if err != nil {
		p.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "prepare: ok"; {
	}
	cmd.Process.Kill()
	cmd.Wait()
	p.same("locks", p.read(".git/refs/heads/main.lock")+p.read(".git/HEAD.lock"), commit+"\n")
}

// A git command that is killed while it moves the branch leaves its lock files. The next merge removes them.
func TestMoveKilled(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(p *repository){
		"both are locked":       func(*repository) {},
		"the branch was moved":  func(p *repository) { os.Remove(p.dir + "/.git/refs/heads/main.lock") },
		"HEAD is not locked":    func(p *repository) { os.Remove(p.dir + "/.git/HEAD.lock") },
		"the lock is empty":     func(p *repository) { p.write(".git/refs/heads/main.lock", "") },
		"the record is not all": func(p *repository) { p.clearLocks(); p.write(p.recordName(), `{"comm`) },
		"it has locked nothing": func(p *repository) { p.clearLocks() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRepository(t)
			p.repo.stale = time.Millisecond
			commit := p.attempt("t", p.first, "new=1")
			p.killMove(commit, true)
			change(p)
			p.merge(commit)
			p.same("main", p.git("rev-parse", "main"), commit)
			p.noLocks()
			if p.read(p.recordName()) != "none" {
				t.Error("the record is left")
			}
		})
	}
}

// A lock file that is not known to be one of a killed merge stays.
func TestMoveLockedByOthers(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(p *repository){
		"of a person":    func(p *repository) { os.Remove(p.dir + "/" + p.recordName()) },
		"another commit": func(p *repository) { p.write(".git/refs/heads/main.lock", p.first+"\n") },
		"older": func(p *repository) {
			old := time.Now().Add(-time.Hour)
			for _, name := range []string{"/.git/HEAD.lock", "/.git/refs/heads/main.lock"} {
				if err := os.Chtimes(p.dir+name, old, old); err != nil {
					p.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRepository(t)
			p.repo.stale = time.Millisecond
			commit := p.attempt("t", p.first, "new=1")
			p.killMove(commit, true)
			change(p)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			// git is repeated until its lock is gone, also when ctx has ended, as what is begun is finished.
			var person sync.WaitGroup
			person.Go(func() {
				<-ctx.Done()
				p.clearLocks()
			})
			defer person.Wait()
			m, err := p.repo.Merge(t.Context(), Merge{Into: "main", Commit: commit})
			if err != nil || ctx.Err() == nil {
				t.Errorf("%+v, %v: it has not waited", m, err)
			}
		})
	}
}

// A git command that is killed alone leaves nothing, either.
func TestMoveGitKilled(t *testing.T) {
	t.Parallel()
	p := newRepository(t)
	p.repo.stale = time.Millisecond
	commit := p.attempt("t", p.first, "new=1")
	l, err := p.repo.lockBranch(t.Context(), "refs/heads/other")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	if err := p.repo.move(ctx, p.repo.git(), l, "", commit, "test"); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(l.record); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the record is left: %v", err)
	}
	if err := p.repo.move(t.Context(), p.repo.git(), l, "", commit, "test"); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	p.same("the branch", p.git("rev-parse", "other"), commit)
}

// recordName returns the name of the record of main, relative to the worktree.
func (p *repository) recordName() string {
	return ".git/coppice-release/" + filepath.Base(p.repo.lockName("refs/heads/main")) + ".moving"
}

// clearLocks removes the lock files of git, as a person does.
func (p *repository) clearLocks() {
	os.Remove(p.dir + "/.git/HEAD.lock")
	os.Remove(p.dir + "/.git/refs/heads/main.lock")
}
