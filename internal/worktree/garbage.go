package worktree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/filelock"
	"github.com/coppice-dev/coppice/internal/safename"
)

// Kind says what a piece of garbage is.
type Kind string

// Kinds of garbage.
const (
	KindWorktree  Kind = "worktree"  // of an attempt that has ended, with its branch and ports
	KindBranch    Kind = "branch"    // of an attempt, without a worktree and with no commit of its own
	KindParked    Kind = "parked"    // a reference to what was kept of a removed worktree
	KindDirectory Kind = "directory" // in the directory of the worktrees, and no worktree
	KindLease     Kind = "lease"     // lock files of an attempt that is gone
)

// Item describes something that can be deleted without losing work.
type Item struct {
	Kind   Kind   `json:"kind"`
	Name   string `json:"name"` // the path, branch or reference
	Reason string `json:"reason"`
	Bytes  int64  `json:"bytes"` // that it has on the disk; 0 for names, whose objects git collects
	// Parked names the reference with the work of a worktree that was deleted.
	Parked string `json:"parked,omitempty"`

	attempt Attempt
	ref     string // of a branch or parked
	commit  string // that ref had
}

// DefaultKeep limits the age of parked work that is not merged, unless GarbageOptions has another limit.
const DefaultKeep = 30 * 24 * time.Hour

// GarbageOptions say what is garbage.
type GarbageOptions struct {
	// Live reports whether an attempt has not ended. With or without it, an attempt is live while a process
	// has the lease of its worktree or works in it.
	Live func(Attempt) bool
	// Parked makes parked work that is not merged garbage when it is older than Keep.
	Parked bool
	Keep   time.Duration // DefaultKeep if 0
}

func (o GarbageOptions) keep() time.Duration { return cmp.Or(o.Keep, DefaultKeep) }

// OpenExisting returns the Repo of a directory like Open, but does not make the directory of the worktrees.
// So a search for garbage changes nothing in a repository that never had a worktree.
func OpenExisting(ctx context.Context, dir string, o Options) (*Repo, error) {
	r, err := find(ctx, dir, o)
	if err != nil {
		return nil, fmt.Errorf("opening the repository of %s: %w", dir, err)
	}
	if _, err := os.Lstat(r.dir.root); errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	return Open(ctx, dir, o)
}

// Garbage returns what can be deleted without losing work. With an error, it also returns what it has
// found.
func (r *Repo) Garbage(ctx context.Context, o GarbageOptions) (all []Item, err error) {
	entries, err := os.ReadDir(r.dir.root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking for garbage: %w", err)
	}
	err = nil
	seen := map[string]bool{}
	for _, e := range entries {
		item, e := r.garbageEntry(e, o, seen)
		if e != nil {
			err = errors.Join(err, e)
		} else if item != nil {
			all = append(all, *item)
		}
	}
	branches, e := r.garbageBranches(ctx)
	err = errors.Join(err, e)
	refs, e := r.parked.garbage(ctx, o)
	if err = errors.Join(err, e); err != nil {
		err = fmt.Errorf("looking for garbage: %w", err)
	}
	return slices.Concat(all, branches, refs), err
}

// garbageEntry returns an entry of the directory of the worktrees, or the worktree that it belongs to, if
// that is garbage; nil otherwise. seen has the names of the attempts of earlier entries.
func (r *Repo) garbageEntry(e fs.DirEntry, o GarbageOptions, seen map[string]bool) (*Item, error) {
	name, suffix, _ := strings.Cut(e.Name(), ".")
	a, ok := parseName(name)
	if !ok || seen[name+"/"] {
		return nil, nil
	}
	rec, err := r.dir.load(name)
	if err != nil {
		seen[name+"/"] = true
		return nil, err
	}
	path := r.dir.path(e.Name())
	if rec != nil {
		seen[name+"/"] = true
		return r.garbageWorktree(rec, o)
	}
	if !e.IsDir() {
		if suffix := "." + suffix; suffix != lockSuffix && suffix != leaseSuffix && suffix != newSuffix || seen[name] {
			return nil, nil
		}
		seen[name] = true
		used, err := r.dir.looksUsed(name)
		if used || err != nil {
			return nil, err
		}
		return &Item{Kind: KindLease, Name: r.dir.path(name), Reason: "its attempt is gone", attempt: a}, nil
	}
	if admin, err := r.git.adminDir(path); err != nil || admin != "" || processIn(path) != 0 {
		return nil, err
	}
	item := &Item{
		Kind: KindDirectory, Name: path, Reason: "git knows no worktree there", Bytes: DiskUsage(path), attempt: a,
	}
	switch "." + suffix {
	case removingSuffix:
		item.Reason = "its removal was not completed"
	case indexSuffix:
		item.Reason = "a process was killed that used it"
	}
	return item, nil
}

// parseName returns the attempt of a name, whose task is the safe name of the real one.
func parseName(name string) (Attempt, bool) {
	i := strings.LastIndexByte(name, '-')
	if i < 0 {
		return Attempt{}, false
	}
	n, err := strconv.Atoi(name[i+1:])
	a := Attempt{Task: name[:i], Number: n}
	return a, err == nil && safename.Valid(a.Task) && a.check() == nil && a.name() == name
}

func (r *Repo) garbageWorktree(rec *record, o GarbageOptions) (*Item, error) {
	a := rec.attempt()
	used, err := r.dir.looksUsed(a.name())
	if err != nil || used || o.Live != nil && o.Live(a) {
		return nil, err
	}
	path := r.dir.path(a.name())
	item := &Item{Kind: KindWorktree, Name: path, Reason: a.String() + " has ended", attempt: a}
	for _, suffix := range []string{"", verifySuffix, removingSuffix, indexSuffix} {
		item.Bytes += DiskUsage(path + suffix)
	}
	if rec.State == adding || rec.State == removing {
		item.Reason = a.String() + " was interrupted while it was " + string(rec.State)
	}
	return item, nil
}

// garbageBranches returns the branches of attempts without a record, if all their commits are in branches
// of the user, remote-tracking branches or tags.
func (r *Repo) garbageBranches(ctx context.Context) (all []Item, err error) {
	const format = "%(refname) %(objectname) %(worktreepath)"
	out, err := r.git.shared().Run(ctx, "for-each-ref", "--format="+format, heads+branches)
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		name := strings.TrimPrefix(fields[0], heads+branches)
		a, ok := parseName(name)
		if !ok || len(fields) != 2 { // it is checked out
			continue
		}
		item := Item{
			Kind: KindBranch, Name: branches + name, Reason: "all its commits are in other branches or tags",
			attempt: a, ref: fields[0], commit: fields[1],
		}
		if merged, e := r.isMergedBranch(ctx, item); e != nil {
			err = errors.Join(err, e)
		} else if merged {
			all = append(all, item)
		}
	}
	return all, err
}

func (r *Repo) isMergedBranch(ctx context.Context, i Item) (bool, error) {
	if rec, err := r.dir.load(i.attempt.name()); rec != nil || err != nil {
		return false, err
	}
	return r.git.isMerged(ctx, i.commit)
}

// Collect deletes what Garbage has returned with the same options, and returns what it has deleted. It
// checks each item again and leaves those that are no longer garbage.
func (r *Repo) Collect(ctx context.Context, items []Item, o GarbageOptions) (deleted []Item, err error) {
	if len(items) > 0 {
		if err := r.makeDir(ctx); err != nil { // for locks
			return nil, fmt.Errorf("deleting garbage: %w", err)
		}
	}
	for _, i := range items {
		done, e := r.collect(ctx, &i, o)
		if done {
			deleted = append(deleted, i)
		}
		if e != nil && !errors.Is(e, ErrInUse) {
			err = errors.Join(err, fmt.Errorf("deleting %s %s: %w", i.Kind, i.Name, e))
		}
	}
	return deleted, err
}

func (r *Repo) collect(ctx context.Context, i *Item, o GarbageOptions) (done bool, err error) {
	switch i.Kind {
	case KindWorktree:
		removed, err := r.removeUnless(ctx, i.attempt, o.Live)
		i.Parked = removed.Parked
		return err == nil, err
	case KindParked:
		refs, err := r.parked.matching(ctx, i.ref)
		if err != nil || len(refs) != 1 || refs[0].commit != i.commit {
			return false, err
		}
		if reason, err := r.parked.notNeeded(ctx, refs[0], o); err != nil || reason == "" {
			return false, err
		}
		err = r.git.deleteRef(ctx, i.ref, i.commit)
		return err == nil, err
	}
	name := i.attempt.name()
	l, err := r.dir.lock(ctx, name)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, r.dir.unlock(name, l)) }()
	switch i.Kind {
	case KindBranch:
		if merged, err := r.isMergedBranch(ctx, *i); err != nil || !merged {
			return false, err
		}
		if used, err := r.git.isCheckedOut(ctx, i.ref); err != nil || used {
			return false, err
		}
		err = r.git.deleteRef(ctx, i.ref, i.commit)
		return err == nil, err
	case KindDirectory:
		return r.collectDirectory(ctx, i, l)
	}
	rec, err := r.dir.load(name)
	return err == nil && rec == nil, err // unlock deletes the files of a lease
}

// collectDirectory deletes a directory that git does not know. Its files are parked, as if it were still
// the worktree of its attempt. The lock of the attempt is held.
func (r *Repo) collectDirectory(ctx context.Context, i *Item, l *filelock.Lock) (bool, error) {
	name := i.attempt.name()
	if rec, err := r.dir.load(name); rec != nil || err != nil {
		return false, err
	}
	if i.Name == r.dir.path(name)+removingSuffix || i.Name == r.dir.path(name)+indexSuffix {
		err := r.dir.deleteDir(strings.TrimPrefix(i.Name, r.dir.root+"/"))
		return err == nil, err
	}
	if admin, err := r.git.adminDir(r.dir.path(name)); admin != "" || err != nil {
		return false, err
	}
	commit, err := r.git.resolve(ctx, "")
	if err != nil {
		return false, err
	}
	rec := &record{
		Task: i.attempt.Task, Number: i.attempt.Number, Commit: commit, State: ready,
		Created: time.Now().UTC().Truncate(time.Second),
	}
	if err := r.dir.save(rec); err != nil {
		return false, err
	}
	removed, err := r.remove(ctx, rec, l)
	i.Parked = removed.Parked
	return err == nil, err
}
