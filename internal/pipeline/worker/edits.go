package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/coppice-dev/coppice/internal/answer"
	"github.com/coppice-dev/coppice/internal/change"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/patch"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/internal/pipeline/attempt"
)

// edit lets a model make a change: in the files of the worktree, or by edits in its answer to a prompt that has files.
func (a *run) edit(
	ctx context.Context, s pipeline.Stage, files []string, prompt func(attempt.Facts) string,
) (done attempt.Done, err error) {
	f := a.facts
	if f.ApplyEdits = s.ApplyEdits; s.ApplyEdits {
		f.Shown = a.shown(files)
	}
	text := prompt(f)
	for again := s.Retries; ; again-- {
		got, err := a.caller.call(ctx, pipeline.Implement, s, text)
		if err != nil {
			return done, err
		}
		done, err := a.done(got.text)
		if err != nil || !s.ApplyEdits {
			return done, err
		}
		problem, err := a.apply(got.text)
		switch {
		case err != nil:
			return done, err
		case problem == "":
			return done, nil
		case again <= 0:
			return done, attempt.Retry(pipeline.Implement, outcome.SchemaMismatch, "its edits cannot be applied: %s",
				problem)
		}
		a.say("the edits cannot be applied: %s; it is asked again", problem)
		text += "\nNone of the edits in your last answer was applied: " + problem + "\n"
	}
}

// done reads what a model says of its change. The change is what counts: an answer in another form only tells less.
func (a *run) done(text string) (attempt.Done, error) {
	schema, err := answer.ParseSchema([]byte(attempt.Schema(pipeline.Implement)))
	if err != nil {
		return attempt.Done{}, err
	}
	found, err := schema.Find(text)
	if err != nil {
		return attempt.Done{}, nil
	}
	d, err := attempt.Read[attempt.Done](found)
	if err != nil {
		return attempt.Done{}, nil
	}
	a.learnt = a.learnt.With(d.Report)
	if end := attempt.Learned(pipeline.Implement, d.Report, a.facts.Rules.MaxFiles); end != nil {
		return d, end
	}
	return d, nil
}

// maxProblem bounds the text about edits that cannot be applied, in bytes.
const maxProblem = 4 << 10

// apply applies the edits in an answer to the worktree: all of them, or none and the problem.
func (a *run) apply(text string) (problem string, err error) {
	p, err := patch.Parse(text)
	if syntax, ok := errors.AsType[*patch.SyntaxError](err); ok {
		return fmt.Sprintf("line %d of the answer: %s", syntax.Line, syntax.Problem), nil
	}
	if err != nil {
		return "", err
	}
	r, err := patch.Apply(a.site.tree.Path, p, false)
	if err != nil {
		return "", err
	}
	lines := strings.Join(r.Lines(), "\n")
	if r.Failed() {
		return attempt.Tail(lines, maxProblem), nil
	}
	a.say("%s", strings.Join(r.Lines(), "; "))
	return "", nil
}

// files returns the names of files that a step is about. Without a plan they are those that the task names.
func (a *run) files(step *attempt.Step) []string {
	if step == nil {
		return attempt.Files(a.facts.Task.Text)
	}
	return step.Files
}

// changedPaths returns the names of the changed files.
func changedPaths(c *change.Change) (all []string) {
	for _, f := range c.Files {
		all = append(all, f.Path)
	}
	return all
}

// maxShown bounds the files in a prompt.
const maxShown = 20

// shown reads files of the worktree for a prompt. Their names come from a model.
func (a *run) shown(files []string) (all []attempt.File) {
	root, err := os.OpenRoot(a.site.tree.Path)
	if err != nil {
		return nil
	}
	defer root.Close()
	for _, name := range files[:min(len(files), maxShown)] {
		f := attempt.File{Path: name}
		if f.Text, err = readText(root, name); errors.Is(err, fs.ErrNotExist) {
			f.Note = "it does not exist"
		} else if err != nil {
			f.Note = "it cannot be shown"
		}
		all = append(all, f)
	}
	return all
}

// errNotRegular means that a name is not that of a file.
var errNotRegular = errors.New("it is not a regular file")

// readText reads a file below a root, and a little more than a prompt may have of it. Links are not followed.
func readText(root *os.Root, name string) (string, error) {
	name = filepath.Clean(filepath.FromSlash(name))
	if err := patch.CheckPath(filepath.ToSlash(name)); err != nil {
		return "", err
	}
	info, err := root.Lstat(name)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errNotRegular
	}
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, attempt.MaxShown+1))
	return string(text), err
}
