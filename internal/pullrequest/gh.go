package pullrequest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/git"
	"github.com/coppice-dev/coppice/internal/lazyregexp"
)

// gh is GitHub's command line. exitLogin is its exit code when it needs a login, see gh help exit-codes.
const (
	gh        = "gh"
	exitLogin = 4
)

// maxAnswer bounds the output of gh, in bytes.
const maxAnswer = 4 << 20

// State is the state of a pull request, in the words of gh.
type State string

// The states of a pull request. A merged one is not IsClosed.
const (
	IsOpen   State = "OPEN"
	IsClosed State = "CLOSED"
	IsMerged State = "MERGED"
)

// Request is a pull request.
type Request struct {
	URL   string
	State State
	Head  string // the last commit of its branch
	Merge string // the commit that has merged it; empty if it is not merged
}

// Proposal is a commit to propose.
type Proposal struct {
	Branch string // of the pull request
	Base   string // the branch that it is for
	Commit string
	// Known are commits that the branch may be at in the remote; another one is not overwritten.
	Known       []string
	Title, Body string
	Draft       bool
}

// Propose pushes a commit to a branch of the remote, and opens a pull request for the branch, unless there is an open
// one. It can be repeated after a crash at any moment. Errors are of type *Error.
func (r *Remote) Propose(ctx context.Context, p Proposal) (Request, error) {
	if err := r.push(ctx, p); err != nil {
		return Request{}, err
	}
	if found, ok, err := r.open(ctx, p); ok || err != nil {
		return found, err
	}
	args := []string{"pr", "create", "--head", p.Branch, "--base", p.Base, "--title", p.Title, "--body-file", "-"}
	if p.Draft {
		args = append(args, "--draft")
	}
	out, err := r.gh(ctx, "opening a pull request in", p.Body, args...)
	if err != nil {
		// GitHub has at most one open pull request of a branch. A gh that has outlived its caller may have made it.
		if failed, ok := errors.AsType[*git.Error](err); ok && strings.Contains(failed.Stderr, "already exists") {
			if found, ok, err := r.open(ctx, p); ok || err != nil {
				return found, err
			}
		}
		return Request{}, err
	}
	lines := strings.Fields(out)
	if len(lines) == 0 {
		return Request{}, &Error{Err: errors.New("gh pr create has printed no URL")}
	}
	address := lines[len(lines)-1]
	if err := r.check(address); err != nil {
		return Request{}, &Error{Err: fmt.Errorf("gh pr create: %w", err)}
	}
	return Request{URL: address, State: IsOpen, Head: p.Commit}, nil
}

// open returns the open pull request of a proposal, and whether there is one.
func (r *Remote) open(ctx context.Context, p Proposal) (Request, bool, error) {
	all, err := r.Find(ctx, p.Branch, p.Base)
	for _, q := range all {
		if q.State == IsOpen {
			return q, true, nil
		}
	}
	return Request{}, false, err
}

// found is a pull request in the output of gh pr list.
type found struct {
	URL         string `json:"url"`
	State       State  `json:"state"`
	HeadRefName string `json:"headRefName"`
	BaseRefName string `json:"baseRefName"`
	HeadRefOid  string `json:"headRefOid"`
	Cross       bool   `json:"isCrossRepository"`
	MergeCommit *struct {
		Oid string `json:"oid"`
	} `json:"mergeCommit"`
}

// Find returns the pull requests from a branch of the remote into another one, in all states, the latest first. Those
// from other repositories, which anyone can make, are left out. Errors are of type *Error.
func (r *Remote) Find(ctx context.Context, branch, base string) ([]Request, error) {
	out, err := r.gh(ctx, "reading the pull requests of", "", "pr", "list", "--head", branch, "--base", base, "--state",
		"all", "--limit", "100", "--json",
		"url,state,headRefName,baseRefName,headRefOid,isCrossRepository,mergeCommit")
	if err != nil {
		return nil, err
	}
	var list []found
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, &Error{Err: fmt.Errorf("gh pr list: %w", err)}
	}
	var all []Request
	for _, f := range list {
		if f.Cross || f.HeadRefName != branch || f.BaseRefName != base {
			continue
		}
		q := Request{URL: f.URL, State: f.State, Head: f.HeadRefOid}
		if f.MergeCommit != nil {
			q.Merge = f.MergeCommit.Oid
		}
		if err := r.checkRequest(q); err != nil {
			return nil, &Error{Err: fmt.Errorf("gh pr list: %w", err)}
		}
		all = append(all, q)
	}
	return all, nil
}

// checkRequest checks what gh has said of a pull request.
func (r *Remote) checkRequest(q Request) error {
	switch {
	case q.State != IsOpen && q.State != IsClosed && q.State != IsMerged:
		return fmt.Errorf("%s is in the unknown state %.50q", q.URL, q.State)
	case !hash().MatchString(q.Head) || q.Merge != "" && !hash().MatchString(q.Merge):
		return fmt.Errorf("%.300q has the commits %.100q and %.100q, expected full hashes", q.URL, q.Head, q.Merge)
	}
	return r.check(q.URL)
}

var pullPath = lazyregexp.New(`^/[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+/pull/[1-9][0-9]{0,9}$`)

// check checks the URL of a pull request: it is on the host of the remote.
func (r *Remote) check(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || !strings.EqualFold(u.Host, r.host) || !pullPath().MatchString(u.Path) ||
		u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%.300q is no pull request on %s", address, r.host)
	}
	return nil
}

// Remark is a comment on a pull request, or a review. Its text is not to be trusted.
type Remark struct {
	By, Text string
	At       time.Time
}

// said is a comment or a review in the output of gh pr view.
type said struct {
	Author struct {
		Login string `json:"login"`
	} `json:"author"`
	Body        string    `json:"body"`
	CreatedAt   time.Time `json:"createdAt"`   // of a comment
	SubmittedAt time.Time `json:"submittedAt"` // of a review
}

// Remarks returns the comments and reviews of a pull request that have a text, the oldest first. Errors are of type
// *Error.
func (r *Remote) Remarks(ctx context.Context, address string) ([]Remark, error) {
	out, err := r.gh(ctx, "reading a pull request of", "", "pr", "view", address, "--json", "comments,reviews")
	if err != nil {
		return nil, err
	}
	var view struct{ Comments, Reviews []said }
	if err := json.Unmarshal([]byte(out), &view); err != nil {
		return nil, &Error{Err: fmt.Errorf("gh pr view: %w", err)}
	}
	var all []Remark
	for _, s := range slices.Concat(view.Comments, view.Reviews) {
		at := s.CreatedAt
		if at.IsZero() {
			at = s.SubmittedAt
		}
		if text := strings.TrimSpace(s.Body); text != "" {
			all = append(all, Remark{s.Author.Login, text, at})
		}
	}
	slices.SortStableFunc(all, func(a, b Remark) int { return a.At.Compare(b.At) })
	return all, nil
}

// gh runs a command of gh on the repository, and returns its output. Errors are of type *Error.
func (r *Remote) gh(ctx context.Context, doing, input string, args ...string) (string, error) {
	limited, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	c := git.Command{Program: gh, Args: append(args, "--repo", r.String()), Dir: r.dir, Env: r.env,
		Stdin: strings.NewReader(input)}
	var out []byte
	err := c.Read(limited, func(in io.Reader) (err error) {
		if out, err = io.ReadAll(io.LimitReader(in, maxAnswer+1)); err == nil && len(out) > maxAnswer {
			err = errors.New("it has more than " + strconv.Itoa(maxAnswer>>20) + " MiB of output")
		}
		return err
	})
	switch {
	case err == nil:
		return string(out), nil
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	}
	return "", classify(limited, doing+" "+r.String(), err)
}
