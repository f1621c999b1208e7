package worktree

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/plaintext"
)

// parkedWork owns the references below refs/coppice/parked/, which have what git would have lost with removed
// worktrees.
type parkedWork struct {
	git git // runs commands on what all worktrees share
}

// parkedRef names a commit with the work of a removed worktree.
type parkedRef struct {
	ref     string
	commit  string
	tree    string
	parents []string
	at      time.Time
}

// matching returns the parked references that a pattern of for-each-ref matches.
func (w *parkedWork) matching(ctx context.Context, patterns ...string) (all []parkedRef, err error) {
	const format = "%(refname) %(objectname) %(tree) %(committerdate:unix) %(parent)"
	out, err := w.git.Run(ctx, append([]string{"for-each-ref", "--format=" + format}, patterns...)...)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !isObjectID(fields[1]) {
			continue // no commit: it is none of ours
		}
		at, err := strconv.ParseInt(fields[3], 10, 64)
		if err != nil {
			continue
		}
		all = append(all, parkedRef{fields[0], fields[1], fields[2], fields[4:], time.Unix(at, 0)})
	}
	return all, nil
}

// of returns the parked references of an attempt.
func (w *parkedWork) of(ctx context.Context, rec *record) ([]parkedRef, error) {
	ref := parkedRefs + rec.attempt().name()
	return w.matching(ctx, ref, ref+".*")
}

// notParked returns the commits that are in no parked reference of an attempt.
func (w *parkedWork) notParked(ctx context.Context, rec *record, tips []string) (left []string, err error) {
	refs, err := w.of(ctx, rec)
	if err != nil {
		return nil, err
	}
	for _, tip := range tips {
		args := []string{"rev-list", "--max-count=1", tip, "--not"}
		for _, p := range refs {
			args = append(args, p.commit)
		}
		out, err := w.git.Line(ctx, args...)
		if err != nil {
			return nil, err
		}
		if out != "" {
			left = append(left, tip)
		}
	}
	return left, nil
}

// keep makes a commit of a snapshot and a reference to it, and reads the reference back. It returns an existing
// reference to the same work, or "" if nothing would be lost. It calls step between commit and reference.
func (w *parkedWork) keep(ctx context.Context, rec *record, s snapshot, step func(string)) (ref string, err error) {
	if s.isEmpty() {
		return "", nil
	}
	parents := slices.Clone(s.tips)
	if s.dirty && !slices.Contains(parents, s.head) {
		parents = append([]string{s.head}, parents...)
	}
	if i := slices.Index(parents, s.head); i > 0 {
		parents[0], parents[i] = parents[i], parents[0]
	}
	a := rec.attempt()
	title := fmt.Sprintf("Attempt %d of %s", a.Number, plaintext.OneLine(a.Task, 100))
	if s.index != "" {
		// Its date is fixed, so that it is the same commit when this is done again after a crash.
		staged, err := w.commitTree(ctx, s.index, []string{s.head}, title+": index\n", rec.Created)
		if err != nil {
			return "", err
		}
		parents = append(parents, staged)
	}
	existing, err := w.of(ctx, rec)
	if err != nil {
		return "", err
	}
	for _, p := range existing {
		if p.tree == s.tree && slices.Equal(p.parents, parents) {
			return p.ref, nil
		}
	}
	text := fmt.Sprintf("%s\n\nTask: %s\nBase: %s\n", title, plaintext.OneLine(a.Task, maxTask), rec.Commit)
	commit, err := w.commitTree(ctx, s.tree, parents, text, time.Now())
	if err != nil {
		return "", err
	}
	step("committed")
	ref = parkedRefs + a.name()
	for n := 2; slices.ContainsFunc(existing, func(p parkedRef) bool { return p.ref == ref }); n++ {
		ref = fmt.Sprintf("%s%s.%d", parkedRefs, a.name(), n)
	}
	if _, err := w.git.Run(ctx, "update-ref", ref, commit, strings.Repeat("0", len(commit))); err != nil {
		return "", err
	}
	tree, err := w.git.Line(ctx, "rev-parse", "--verify", ref+"^{tree}")
	if err != nil || tree != s.tree {
		return "", errors.Join(err, fmt.Errorf("%w: %s has the tree %s, not %s", ErrNotKept, ref, tree, s.tree))
	}
	return ref, nil
}

// commitTree makes a commit and returns it.
func (w *parkedWork) commitTree(ctx context.Context, tree string, parents []string, text string, at time.Time,
) (commit string, err error) {
	g := w.git
	date := fmt.Sprintf("%d +0000", at.Unix())
	g.Env = []string{
		"GIT_AUTHOR_NAME=Coppice", "GIT_AUTHOR_EMAIL=coppice@localhost", "GIT_AUTHOR_DATE=" + date,
		"GIT_COMMITTER_NAME=Coppice", "GIT_COMMITTER_EMAIL=coppice@localhost", "GIT_COMMITTER_DATE=" + date,
	}
	args := []string{"commit-tree", "--no-gpg-sign", tree}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	out, err := g.RunWith(ctx, text, args...)
	return strings.TrimSuffix(out, "\n"), err
}

// garbage returns the parked references that are merged, or old.
func (w *parkedWork) garbage(ctx context.Context, o GarbageOptions) (all []Item, err error) {
	refs, err := w.matching(ctx, parkedRefs)
	for _, p := range refs {
		reason, e := w.notNeeded(ctx, p, o)
		if err = errors.Join(err, e); reason != "" {
			all = append(all, Item{Kind: KindParked, Name: p.ref, Reason: reason, ref: p.ref, commit: p.commit})
		}
	}
	return all, err
}

// notNeeded says why a parked reference is garbage; "" if it is not.
func (w *parkedWork) notNeeded(ctx context.Context, p parkedRef, o GarbageOptions) (reason string, err error) {
	reason, err = w.merged(ctx, p)
	if age := time.Since(p.at); err == nil && reason == "" && o.Parked && age > o.keep() {
		reason = fmt.Sprintf("it was parked %d days ago", int(age.Hours()/24))
	}
	return reason, err
}
