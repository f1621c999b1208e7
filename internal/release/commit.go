package release

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Commit describes the commit of an attempt.
type Commit struct {
	Base string // the commit that the attempt began with
	Tree string // the id of the tree that was checked
	// Subject and Body may be any text, such as that of a language model. The subject becomes one line of at
	// most 72 bytes, and names the task if it is empty. The body is truncated to 8 KiB.
	Subject, Body string
	Task          string    // one line of at most 500 bytes
	Attempt       int       // from 1
	At            time.Time // now by default
}

// Commit makes a commit and returns its id. The message ends with the trailers Coppice-Task and
// Coppice-Attempt. The author is that of the configuration of git, or "Coppice". No branch is changed. The
// same Commit with the same time has the same id. The error is ErrEmpty if Tree is the tree of Base.
func (r *Repo) Commit(ctx context.Context, c Commit) (string, error) {
	id, err := r.makeCommit(ctx, c)
	if err != nil {
		return "", fmt.Errorf("committing attempt %d of %q: %w", c.Attempt, c.Task, err)
	}
	return id, nil
}

func (r *Repo) makeCommit(ctx context.Context, c Commit) (string, error) {
	message, err := c.message()
	if err != nil {
		return "", err
	}
	base, err := r.commit(ctx, c.Base)
	if err != nil {
		return "", err
	}
	tree, err := r.git().Line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", c.Tree+"^{tree}")
	if err != nil || tree != c.Tree { // a commit has a tree, too, but what was checked is a tree
		return "", fmt.Errorf("%q is no tree of the repository", c.Tree)
	}
	old, err := r.git().Line(ctx, "rev-parse", "--verify", base+"^{tree}")
	if err != nil {
		return "", err
	}
	if old == tree {
		return "", ErrEmpty
	}
	if c.At.IsZero() {
		c.At = time.Now()
	}
	return r.commitTree(ctx, tree, message, c.At, base)
}

// commitTree makes a commit object.
func (r *Repo) commitTree(ctx context.Context, tree, message string, at time.Time, parents ...string) (string, error) {
	who, err := r.identity(ctx)
	if err != nil {
		return "", err
	}
	args := []string{"commit-tree", "--no-gpg-sign"}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	g := r.git()
	g.Env = append(g.Env, who.environ(at)...)
	out, err := g.RunWith(ctx, message, append(args, "-F", "-", tree)...)
	return strings.TrimSuffix(out, "\n"), err
}

// identity is the author of a commit.
type identity struct{ name, email string }

// identity returns the name and address that git is configured with, or those of Coppice.
func (r *Repo) identity(ctx context.Context) (who identity, err error) {
	if who.name, err = r.config(ctx, "user.name"); err != nil {
		return who, err
	}
	if who.email, err = r.config(ctx, "user.email"); err != nil {
		return who, err
	}
	if who.name == "" || who.email == "" {
		who = identity{"Coppice", "coppice@localhost"}
	}
	return who, nil
}

func (who identity) environ(at time.Time) []string {
	date := fmt.Sprintf("@%d +0000", at.Unix())
	return []string{
		"GIT_AUTHOR_NAME=" + who.name, "GIT_AUTHOR_EMAIL=" + who.email, "GIT_AUTHOR_DATE=" + date,
		"GIT_COMMITTER_NAME=" + who.name, "GIT_COMMITTER_EMAIL=" + who.email, "GIT_COMMITTER_DATE=" + date,
	}
}
