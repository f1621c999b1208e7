package worktree

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	for want, damage := range map[string]func(p *place, dir string) error{
		"directory is missing": func(_ *place, dir string) error { return os.RemoveAll(dir) },
		"does not list": func(p *place, _ string) error {
			return os.RemoveAll(filepath.Join(p.dir, ".git/worktrees/t-1"))
		},
		".git is missing": func(_ *place, dir string) error { return os.Remove(filepath.Join(dir, ".git")) },
		"points elsewhere": func(p *place, dir string) error {
			return os.WriteFile(filepath.Join(dir, ".git"), []byte("gitdir: "+p.dir+"/.git\n"), 0o644)
		},
		"cannot be read": func(p *place, dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, ".git")), os.Mkdir(filepath.Join(dir, ".git"), 0o755))
		},
		"is detached":    func(p *place, dir string) error { p.at(dir, "checkout", "-q", "--detach"); return nil },
		"another branch": func(p *place, dir string) error { p.at(dir, "checkout", "-qb", "x\u00e9"); return nil },
		"no commit": func(p *place, _ string) error {
			p.at(p.dir, "update-ref", "-d", "refs/heads/coppice/t-1")
			return nil
		},
		"HEAD cannot be read": func(p *place, _ string) error {
			return os.WriteFile(filepath.Join(p.dir, ".git/worktrees/t-1/HEAD"), []byte("x"), 0o644)
		},
		"index is missing": func(p *place, _ string) error {
			return os.Remove(filepath.Join(p.dir, ".git/worktrees/t-1/index"))
		},
		"index cannot be read": func(p *place, _ string) error {
			return os.WriteFile(filepath.Join(p.dir, ".git/worktrees/t-1/index"), []byte("x"), 0o644)
		},
		"index is locked": func(p *place, _ string) error {
			return os.WriteFile(filepath.Join(p.dir, ".git/worktrees/t-1/index.lock"), nil, 0o644)
		},
		"it is locked": func(p *place, dir string) error { p.at(p.dir, "worktree", "lock", dir); return nil },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, Options{})
			w := p.create("t", 1)
			if err := p.repo.Check(t.Context(), w.Attempt); err != nil {
				t.Fatal(err)
			}
			if err := damage(p, w.Path); err != nil {
				t.Fatal(err)
			}
			err := p.repo.Check(t.Context(), w.Attempt)
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, expected %q", err, want)
			}
			all, err := p.repo.List(t.Context())
			if err != nil || len(all) != 1 || !strings.Contains(all[0].Problem, want) {
				t.Errorf("%+v, %v", all, err)
			}
			if _, err := p.repo.Create(t.Context(), Attempt{"t", 1, "main"}); !errors.Is(err, ErrCorrupt) {
				t.Errorf("it is given to an attempt: %v", err)
			}
			if want == "cannot be read" { // it may be a repository
				if _, err := p.repo.Remove(t.Context(), w.Attempt); !errors.Is(err, ErrNotKept) {
					t.Errorf("%v", err)
				}
				return
			}
			p.remove(w)
			p.create("t", 1)
		})
	}
	p := newPlace(t, Options{})
	if err := p.repo.Check(t.Context(), Attempt{"t", 1, ""}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// Repair deletes lock files of dead git commands, but not while a worktree is in use.
func TestRepairLocks(t *testing.T) {
	t.Parallel()
	p := newPlace(t, Options{})
	w, err := p.repo.Create(t.Context(), Attempt{"t", 1, "main"})
	if err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(p.dir, ".git/worktrees/t-1/index.lock")
	branch := filepath.Join(p.dir, ".git/refs/heads/coppice/t-1.lock")
	for _, name := range []string{lock, branch} {
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if done, err := p.repo.Repair(t.Context()); len(done) != 0 || err != nil {
		t.Errorf("in use: %q, %v", done, err)
	}
	if err := w.Release(); err != nil {
		t.Fatal(err)
	}
	open, err := os.Open(lock)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.repo.Repair(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(lock); err != nil {
		t.Error("a lock that is open was removed")
	}
	open.Close()
	if done, err := p.repo.Repair(t.Context()); len(done) != 1 || err != nil {
		t.Errorf("%q, %v", done, err)
	}
	if err := p.repo.Check(t.Context(), w.Attempt); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(branch); err == nil {
		t.Error("the lock of the branch is left")
	}
	if done, err := p.repo.Repair(t.Context()); len(done) != 0 || err != nil {
		t.Errorf("again: %q, %v", done, err)
	}
}
