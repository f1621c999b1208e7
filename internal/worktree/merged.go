package worktree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"slices"
	"strconv"
	"strings"
)

// Bounds of the commits whose changes are compared.
const (
	maxParkedCommits = 200  // of one parked reference; one with more is not merged
	maxOtherCommits  = 5000 // the last ones of branches, remote-tracking branches and tags
)

// merged says why nothing would be lost with a parked reference; "" if something would be. Each of its
// commits is in a branch of the user, a remote-tracking branch or a tag, or one of their commits makes
// the same changes.
func (w *parkedWork) merged(ctx context.Context, p parkedRef) (reason string, err error) {
	out, err := w.git.Run(ctx, slices.Concat([]string{"rev-list", "--parents", "--max-count=" +
		strconv.Itoa(maxParkedCommits+1), p.commit, "--not"}, staying)...)
	if err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if out == "" { // a branch was made of it
		return "a branch has it", nil
	}
	if len(lines) > maxParkedCommits || len(p.parents) == 0 {
		return "", nil
	}
	var commits []string
	for _, line := range lines {
		fields := strings.Fields(line)
		switch {
		case fields[0] == p.commit:
		case len(fields) != 2: // a merge or a first commit
			return "", nil
		default:
			commits = append(commits, fields[0])
		}
	}
	ours, err := w.patches(ctx, commits)
	if err != nil {
		return "", err
	}
	own, err := w.patch(ctx, p.parents[0], p.commit)
	if err != nil {
		return "", err
	}
	ours[p.commit] = own
	if len(commits) == 0 && own == "" {
		return "all its commits are in branches or tags", nil
	}
	out, err = w.git.Run(ctx, slices.Concat([]string{"rev-list", "--no-merges", "--max-count=" +
		strconv.Itoa(maxOtherCommits)}, staying, []string{"--not", p.commit})...)
	if err != nil {
		return "", err
	}
	theirs, err := w.patches(ctx, strings.Fields(out))
	if err != nil {
		return "", err
	}
	known := map[string]bool{"": true}
	for _, id := range theirs {
		known[id] = true
	}
	all := true
	for _, id := range ours {
		all = all && known[id]
	}
	if all {
		return "commits with the same changes are in branches or tags", nil
	}
	if len(p.parents) > 1 { // what was staged is not in its tree
		return "", nil
	}
	fork, err := w.git.Line(ctx, "merge-base", p.commit, "HEAD")
	if err != nil {
		return "", nil //nolint:nilerr // they have no commit in common
	}
	if whole, err := w.patch(ctx, fork, p.commit); err != nil || !known[whole] {
		return "", err
	}
	return "a commit with all its changes is in a branch or tag", nil
}

// diffTree prints changes so that equal ones are equal bytes, whatever is configured.
var diffTree = []string{
	"diff-tree", "-r", "-p", "--root", "--binary", "--full-index", "--unified=3", "--no-ext-diff", "--no-textconv",
	"--no-renames", "--no-color", "--no-indent-heuristic", "--diff-algorithm=myers", "--submodule=short",
	"--src-prefix=a/", "--dst-prefix=b/",
}

// patches returns an identifier of the changes of each commit; "" for a merge, and for a commit without
// changes.
func (w *parkedWork) patches(ctx context.Context, commits []string) (map[string]string, error) {
	p := &patchReader{ids: map[string]string{}}
	if len(commits) == 0 {
		return p.ids, nil
	}
	input := strings.Join(commits, "\n") + "\n"
	err := w.git.Command(input, append(slices.Clone(diffTree), "--stdin")...).Run(ctx, p)
	p.end()
	for _, c := range commits {
		if _, ok := p.ids[c]; !ok {
			p.ids[c] = ""
		}
	}
	return p.ids, err
}

// patch returns an identifier of the changes from one commit to another; "" if there are none.
func (w *parkedWork) patch(ctx context.Context, from, to string) (string, error) {
	p := &patchReader{ids: map[string]string{}, commit: to, hash: sha256.New()}
	err := w.git.Command("", append(slices.Clone(diffTree), from, to)...).Run(ctx, p)
	p.end()
	return p.ids[to], err
}

// patchReader reads the output of diff-tree. Changes are the same, as for git patch-id --verbatim, if
// they differ only in the numbers of lines and in the files that they were made to. It also compares
// binary files.
type patchReader struct {
	ids map[string]string // by commit

	commit string
	hash   hash.Hash // of the changes of commit; nil before the first one
	any    bool      // it has changes
	line   []byte    // the beginning of a line, until its kind is known
	inLine bool      // the rest of the line is added to the hash
	skip   bool      // the rest of the line is skipped
}

// maxPrefix bytes of a line are enough to tell its kind: the name of an object has fewer.
const maxPrefix = 80

// Write reads a part of the output.
func (p *patchReader) Write(data []byte) (int, error) {
	n := len(data)
	for len(data) > 0 {
		part, whole := data, false
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			part, whole = data[:i+1], true
		}
		data = data[len(part):]
		switch {
		case p.skip:
		case p.inLine:
			p.hash.Write(part)
		default:
			p.line = append(p.line, part...)
			if whole || len(p.line) >= maxPrefix {
				p.begin(whole)
			}
		}
		if whole {
			p.line, p.inLine, p.skip = p.line[:0], false, false
		}
	}
	return n, nil
}

// begin reads the beginning of a line, or all of it.
func (p *patchReader) begin(whole bool) {
	switch line := p.line; {
	case whole && isObjectID(string(bytes.TrimSuffix(line, []byte("\n")))):
		p.end()
		p.commit, p.hash, p.any = string(line[:len(line)-1]), sha256.New(), false
	case p.hash == nil, bytes.HasPrefix(line, []byte("index ")):
		p.skip = true
	case bytes.HasPrefix(line, []byte("@@ ")):
		p.hash.Write([]byte("@@\n"))
		p.skip = true
	default:
		p.hash.Write(line)
		p.any, p.inLine = true, true
	}
}

// end completes the changes of a commit.
func (p *patchReader) end() {
	if p.hash != nil && p.any {
		p.ids[p.commit] = hex.EncodeToString(p.hash.Sum(nil))
	}
}
