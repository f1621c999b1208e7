package release

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of the commits that Merged reads.
const (
	maxWalk  = 50_000  // commits since the time
	maxOlder = 1000    // commits in a row that are older; clocks differ, and dates can be chosen
	maxField = 8 << 10 // bytes of the trailers of a commit
)

// Released is an attempt whose commit is in a branch.
type Released struct {
	Attempt int
	Commit  string
	At      time.Time // of the commit
}

// Merged returns the attempts of a task that are in a branch, the latest commit first. It reads the trailers
// of the commits that are not older than since, and of at most 1,000 older ones in a row. More than
// 50,000 commits are an error. A commit counts wherever it comes from: people who can commit to the branch
// can write trailers. The zero time stands for all commits.
func (r *Repo) Merged(ctx context.Context, into, task string, since time.Time) ([]Released, error) {
	ref, err := r.branch(ctx, into)
	if err != nil {
		return nil, err
	}
	tip, err := r.tip(ctx, ref)
	if err != nil || tip == "" {
		return nil, errors.Join(err, fmt.Errorf("there is no branch %s", into))
	}
	w := walk{task: task, since: since}
	if err = r.git().Read(ctx, w.read, "log", "-z", "--no-color", "--no-notes", "--no-mailmap", "--no-patch",
		"--max-count="+strconv.Itoa(maxWalk+1), logFormat, "--end-of-options", tip, "--"); w.enough {
		err = nil
	}
	if err == nil && w.commits > maxWalk {
		err = fmt.Errorf("there are more than %d commits", maxWalk)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the commits of %s since %v: %w", into, since.Format(time.DateTime), err)
	}
	return w.found, nil
}

// Tip returns the attempt at a task whose commit a branch is at; nil if there is no such branch, or if it is at another
// commit.
func (r *Repo) Tip(ctx context.Context, branch, task string) (*Released, error) {
	ref, err := r.branch(ctx, branch)
	if err != nil {
		return nil, err
	}
	tip, err := r.tip(ctx, ref)
	if err != nil || tip == "" {
		return nil, err
	}
	w := walk{task: task}
	if err := r.git().Read(ctx, w.read, "log", "-z", "--no-color", "--no-notes", "--no-mailmap", "--no-patch",
		"--max-count=1", logFormat, "--end-of-options", tip, "--"); err != nil || len(w.found) != 1 {
		return nil, err
	}
	return &w.found[0], nil
}

// Message returns the subject and the body of a commit; its trailers are part of the body.
func (r *Repo) Message(ctx context.Context, commit string) (subject, body string, err error) {
	text, err := r.git().Line(ctx, "log", "-1", "--no-color", "--no-patch", "--format=%s%x00%b", "--end-of-options",
		commit, "--")
	subject, body, _ = strings.Cut(text, "\x00")
	return subject, strings.TrimSpace(body), err
}

// taskOf returns the task in the trailers of a commit; "" if it has none.
func (r *Repo) taskOf(ctx context.Context, commit string) (string, error) {
	return r.git().Line(ctx, "log", "-1", "--no-color", "--no-patch",
		"--format=%(trailers:key="+taskTrailer+",valueonly,unfold,separator=%x0a)", "--end-of-options", commit, "--")
}

const logFormat = "--format=tformat:%H%x00%ct%x00%(trailers:key=" + taskTrailer +
	",valueonly,unfold)%x00%(trailers:key=" + attemptTrailer + ",valueonly,unfold)"

// walk reads the output of git log.
type walk struct {
	task  string
	since time.Time

	found   []Released
	commits int
	older   int  // in a row
	enough  bool // the rest is not read
}

var errEnough = errors.New("the rest is older")

func (w *walk) read(r io.Reader) error {
	in := bufio.NewReader(r)
	for {
		var fields [4]string
		for i := range fields {
			field, err := readField(in)
			if errors.Is(err, io.EOF) && i == 0 && field == "" {
				return nil
			}
			if err != nil {
				return err
			}
			fields[i] = field
		}
		if err := w.add(fields[0], fields[1], fields[2], fields[3]); err != nil {
			return err
		}
	}
}

func (w *walk) add(commit, date, tasks, attempts string) error {
	w.commits++
	seconds, err := strconv.ParseInt(date, 10, 64)
	if err != nil {
		return fmt.Errorf("commit %s has the date %q", commit, date)
	}
	at := time.Unix(seconds, 0)
	if at.Before(w.since.Truncate(time.Second)) {
		if w.older++; w.older > maxOlder {
			w.enough = true
			return errEnough
		}
		return nil
	}
	w.older = 0
	numbers := strings.Split(strings.TrimSuffix(attempts, "\n"), "\n")
	ids := strings.Split(strings.TrimSuffix(tasks, "\n"), "\n")
	if len(ids) != len(numbers) {
		return nil
	}
	for i, id := range ids { // a person may have made one commit of several
		n, err := strconv.Atoi(numbers[i])
		one := Released{n, commit, at}
		if err == nil && n > 0 && id == w.task && !slices.Contains(w.found, one) {
			w.found = append(w.found, one)
		}
	}
	return nil
}

// readField reads up to a NUL. What is longer than maxField is cut off.
func readField(in *bufio.Reader) (string, error) {
	var field []byte
	for {
		c, err := in.ReadByte()
		if err != nil || c == 0 {
			return string(field), err
		}
		if len(field) < maxField {
			field = append(field, c)
		}
	}
}
