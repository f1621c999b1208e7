package release

import (
	"context"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/coppice-dev/coppice/internal/git/gittest"
)

// Goroutines and processes merge into one branch while a person commits to it, with commit -a. All commits
// end up in it, each once, and at the end the files are those of the branch.
func TestQueue(t *testing.T) {
	t.Parallel()
	p := newRepository(t)
	p.write("mine", "untracked")
	const n = 20
	var commits [n]string
	for i := range commits {
		commits[i] = p.attempt("t"+itoa(int64(i)), p.first, "file"+itoa(int64(i))+"=1", "dir/x"+itoa(int64(i))+"=1")
	}
	var group sync.WaitGroup
	now := make(chan struct{}, 1) // the person commits
	done := make(chan struct{})
	var combined, checks, running atomic.Int32
	p.repo.step = func(name string) {
		if name == "combined" && combined.Add(1)%3 == 0 { // so that not each try is in vain
			select {
			case now <- struct{}{}:
			default:
			}
		}
	}
	for i, commit := range commits {
		group.Go(func() {
			if i%4 == 0 {
				if out, err := p.process("", commit).CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
				return
			}
			_, err := p.repo.Merge(t.Context(), Merge{"main", commit, func(context.Context, string) error {
				checks.Add(1)
				if running.Add(1) > 1 {
					t.Error("two merges are checked at a time")
				}
				running.Add(-1)
				return nil
			}})
			if err != nil {
				t.Error(err)
			}
		})
	}
	own := 0
	var person sync.WaitGroup
	person.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-now:
			}
			text := strings.Repeat("x", own+1)
			os.WriteFile(p.dir+"/a", []byte(text), 0o644)
			for ok := false; !ok; { // until git gets its locks
				out, err := gittest.Try(p.dir, "commit", "-qam", "person")
				ok = err == nil
				if _, err := gittest.Try(p.dir, "diff", "--quiet", "HEAD", "--", "a"); (err == nil) != ok {
					t.Errorf("a was lost: %s", out)
					return
				}
			}
			own++
		}
	})
	group.Wait()
	close(done)
	person.Wait()
	p.git("add", "a")
	gittest.Try(p.dir, "commit", "-qam", "last")
	p.same("the status", p.status(), "?? mine")
	for i, commit := range commits {
		found, err := p.repo.Merged(t.Context(), "main", "t"+itoa(int64(i)), noon)
		if err != nil || len(found) != 1 || found[0].Commit != commit {
			t.Errorf("attempt %d: %v, %v", i, found, err)
		}
		p.same("its file", p.read("file"+itoa(int64(i)))+p.git("show", "main:dir/x"+itoa(int64(i))), "11")
	}
	if own == 0 || checks.Load() == 0 {
		t.Errorf("the person committed %d times, %d checks", own, checks.Load())
	}
	p.noLocks()
	t.Logf("the person committed %d times; %d checks", own, checks.Load())
}

// The same in a bare repository.
func TestQueueBare(t *testing.T) {
	t.Parallel()
	p := newBare(t)
	var group sync.WaitGroup
	for i := range 20 {
		commit := p.attempt("t"+itoa(int64(i)), p.first, "file"+itoa(int64(i))+"=1")
		group.Go(func() {
			if _, err := p.repo.Merge(t.Context(), Merge{Into: "main", Commit: commit}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	p.same("commits", p.git("rev-list", "--count", "--no-merges", "main"), "21")
}
