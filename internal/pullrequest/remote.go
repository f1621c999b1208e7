// Package pullrequest proposes commits as pull requests on GitHub. Git pushes, and gh, GitHub's command line, does the
// rest. Both run with the environment and the logins of the user, ask nothing, and end in bounded time. What they
// print is checked before it is used.
package pullrequest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/git"
	"github.com/coppice-dev/coppice/internal/lazyregexp"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

// Timeout bounds each command.
const Timeout = 5 * time.Minute

// Remote is a GitHub repository that a git repository has as a remote. It has no state, so several processes may use
// one at the same time.
type Remote struct {
	dir        string // in the git repository
	name       string // of the remote
	host       string
	repository string // OWNER/NAME
	env        []string
}

// Open returns the Remote with a name, of the repository that a directory is in. env is the environment of the user.
// It uses no network. Errors are of type *Error.
func Open(ctx context.Context, dir, name string, env []string) (*Remote, error) {
	r := &Remote{dir: dir, name: name, env: environ(env)}
	address, err := r.git(ctx, "remote", "get-url", "--push", "--", name)
	if err != nil {
		return nil, &Error{Setup, "add it with git remote add NAME URL", fmt.Errorf("the remote %q: %w",
			plaintext.OneLine(name, 100), err)}
	}
	address = strings.TrimSuffix(address, "\n")
	if r.host, r.repository, err = parse(address); err != nil {
		return nil, &Error{Setup, "name a remote that is a repository on GitHub", fmt.Errorf("the remote %q: %w",
			plaintext.OneLine(name, 100), err)}
	}
	return r, nil
}

var (
	scp        = lazyregexp.New(`^(?:[^@/:]+@)?([^@/:]+):([^:].*)$`)
	hostname   = lazyregexp.New(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`)
	repository = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_-]*/[A-Za-z0-9_.-]+$`)
)

// parse returns the host, and the owner and name, of the repository at an address, as in git-clone(1).
func parse(address string) (host, name string, err error) {
	u, err := url.Parse(address)
	switch {
	case err == nil && slices.Contains([]string{"https", "http", "ssh", "git+ssh"}, u.Scheme):
		host, name = u.Hostname(), u.Path
	default:
		if m := scp().FindStringSubmatch(address); m != nil {
			host, name = m[1], m[2]
		}
	}
	if name = strings.TrimSuffix(strings.Trim(name, "/"), ".git"); !hostname().MatchString(host) ||
		!repository().MatchString(name) || strings.HasSuffix(name, "/..") || strings.HasSuffix(name, "/.") {
		return "", "", errors.New("its URL is no HOST/OWNER/NAME")
	}
	if host = strings.ToLower(host); host == "ssh.github.com" { // where ssh is served on the port of https
		host = "github.com"
	}
	return host, name, nil
}

// Tip returns the commit of a branch of the remote, and fetches it. No reference of the repository is changed, so that
// nothing is in the way of another fetch.
func (r *Remote) Tip(ctx context.Context, branch string) (string, error) {
	ref := heads + branch
	commit, err := r.at(ctx, ref)
	if err != nil {
		return "", err
	}
	if commit == "" {
		return "", &Error{Setup, "push it, or name another branch", fmt.Errorf("%s has no branch %s", r,
			plaintext.OneLine(branch, 200))}
	}
	if _, err := r.git(ctx, "cat-file", "-e", commit+"^{commit}"); err == nil {
		return commit, nil
	}
	_, err = r.network(ctx, "fetching from", "fetch", "--quiet", "--no-tags", "--no-write-fetch-head",
		"--no-recurse-submodules", "--refmap=", "--", r.name, ref)
	return commit, err
}

const heads = "refs/heads/"

// hash matches the full hash of a commit.
var hash = lazyregexp.New(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// at returns the commit of a reference of the remote; "" if there is none.
func (r *Remote) at(ctx context.Context, ref string) (string, error) {
	out, err := r.network(ctx, "reading", "ls-remote", "--quiet", "--", r.name, ref)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out) { // the pattern matches the ends of names
		id, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if name == ref {
			if !hash().MatchString(id) {
				return "", &Error{Err: fmt.Errorf("git ls-remote: unexpected output %.200q", line)}
			}
			return id, nil
		}
	}
	return "", nil
}

// push makes a branch of the remote name a commit, if it does not exist or is at the commit or at a known one. What
// others have pushed is never overwritten, also if they push at the same time.
func (r *Remote) push(ctx context.Context, p Proposal) error {
	ref := heads + p.Branch
	old, err := r.at(ctx, ref)
	if err != nil || old == p.Commit {
		return err
	}
	if old != "" && !slices.Contains(p.Known, old) {
		return r.overwrites(p, fmt.Errorf("it is at %.12s", old))
	}
	out, err := r.network(ctx, "pushing to", "push", "--quiet", "--porcelain", "--no-verify", "--no-signed",
		"--no-follow-tags", "--recurse-submodules=no", "--force-with-lease="+ref+":"+old, "--", r.name,
		p.Commit+":"+ref)
	if err == nil {
		return nil
	}
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case !strings.HasPrefix(line, "!\t"):
		case strings.HasSuffix(line, "[rejected] (stale info)"):
			return r.overwrites(p, err)
		case strings.Contains(line, "rejected]"):
			return &Error{Rejected, "see the rules of the repository", fmt.Errorf("%s refuses the branch %s: %s: %w", r,
				p.Branch, plaintext.OneLine(line, 500), err)}
		}
	}
	return err
}

// overwrites returns the error of a push that would overwrite the work of others.
func (r *Remote) overwrites(p Proposal, err error) error {
	return &Error{Rejected, "merge or delete the branch there", fmt.Errorf("others have pushed to the branch %s of "+
		"%s, and nothing of that is overwritten: %w", p.Branch, r, err)}
}

// String returns HOST/OWNER/NAME.
func (r *Remote) String() string { return r.host + "/" + r.repository }

// git runs a git command in the repository.
func (r *Remote) git(ctx context.Context, args ...string) (string, error) {
	return git.Runner{Network: true, Env: r.env}.Run(ctx, append([]string{"-C", r.dir}, args...)...)
}

// network runs a git command that speaks to the remote. Errors are of type *Error.
func (r *Remote) network(ctx context.Context, doing string, args ...string) (string, error) {
	limited, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	out, err := r.git(limited, args...)
	switch {
	case err == nil:
		return out, nil
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	}
	return out, classify(limited, doing+" "+r.String(), err)
}

// environ returns an environment for git and gh, given that of the user: it names no other repository, and there are no
// questions, notices and colors.
func environ(env []string) []string {
	var all []string
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		switch {
		case strings.HasPrefix(name, "GIT_SSH"), strings.HasPrefix(name, "GIT_SSL_"), name == "GIT_CONFIG_GLOBAL",
			name == "GIT_CONFIG_SYSTEM", name == "GIT_CONFIG_NOSYSTEM":
		case strings.HasPrefix(name, "GIT_"), name == "GH_REPO", name == "GH_HOST", name == "GH_DEBUG", name == "DEBUG",
			name == "GH_FORCE_TTY", name == "CLICOLOR_FORCE", name == "SSH_ASKPASS":
			continue
		}
		all = append(all, kv)
	}
	return append(all, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=true", "SSH_ASKPASS=true", "GIT_PAGER=cat",
		"GH_PROMPT_DISABLED=1", "GH_NO_UPDATE_NOTIFIER=1", "GH_PAGER=cat", "NO_COLOR=1")
}
