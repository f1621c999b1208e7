package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/change"
	"github.com/coppice-dev/coppice/internal/change/integrity"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/internal/pipeline/attempt"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/worktree"
)

// tester runs the checks of a change.
type tester struct {
	*job
	site   *site
	caller *caller
	runs   runStore
	proof  *proof // nil if the task names no check
}

// open opens the store of runs in the directory of git that all worktrees share.
func (t *tester) open(ctx context.Context) error {
	common, err := t.site.common(ctx)
	if err == nil {
		t.runs, err = openRuns(common)
	}
	return err
}

// checking returns the commands that check a change: the check that the task names, and that of the stage test, unless
// it is skipped.
func (t *tester) checking(s pipeline.Stage, stage bool) (all []pipeline.Stage) {
	if t.proof != nil {
		all = append(all, t.proof.stage)
	}
	if stage {
		all = append(all, s)
	}
	return all
}

// runTests runs commands in a worktree until one fails.
func (t *tester) runTests(
	ctx context.Context, all []pipeline.Stage, at *worktree.Worktree,
) (runs []testRun, err error) {
	for _, s := range all {
		got, err := t.runTest(ctx, s, at)
		if err != nil {
			return nil, err
		}
		if runs = append(runs, got); got.Failed != "" {
			break
		}
	}
	return runs, nil
}

// passed makes sure that tests which have passed have tested the change, and not less than before it.
func (t *tester) passed(ctx context.Context, c *change.Change, runs []testRun) error {
	// What was tested is what is committed: a test may have written files.
	if err := verify(ctx, c, pipeline.Test, outcome.VerificationFailed, "the work tree has changed while its tests "+
		"ran; they may write only what .gitignore names"); err != nil {
		return err
	}
	tests := runs
	if t.proof != nil {
		if err := t.prove(ctx, c); err != nil {
			return err
		}
		tests = runs[1:]
	}
	for _, got := range runs {
		t.checks = append(t.checks, outcome.Check{Name: checkName(strings.Join(got.argv, " ")), Passed: true})
	}
	for _, got := range tests {
		if err := t.compare(ctx, got); err != nil {
			return err
		}
	}
	for _, got := range runs {
		t.keepRun(c.Tree, got)
	}
	return nil
}

// checkName returns the name of a check in evidence.
func checkName(text string) string { return plaintext.OneLine(text, 200) }

// runTest runs a command with the rights of the stage test in a worktree. It fails if that could not run, or was
// killed, which says nothing.
func (t *tester) runTest(ctx context.Context, s pipeline.Stage, at *worktree.Worktree) (r testRun, err error) {
	file, err := os.OpenFile(filepath.Join(t.dir, "results"), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	out := &bounded{file: file, left: maxTestOutput}
	got, err := t.caller.executeTo(ctx, pipeline.Test, s, at, "", out)
	if err != nil {
		return r, err
	}
	r = testRun{argv: s.Command, output: got.output}
	if got.failed != nil {
		if got.failed.Obstacle == outcome.Crash {
			return r, attempt.Called(t.stage, "", *got.failed)
		}
		r.Failed = got.failed.Reason
	}
	if out.err != nil {
		t.say("the results of the tests are not compared: %v", out.err)
		return r, nil
	}
	r.Results, err = integrity.Parse(file)
	return r, err
}

// maxTestOutput bounds the standard output of tests that is searched for results, in bytes.
const maxTestOutput = 256 << 20

// bounded writes to a file until it has too much. It never fails.
type bounded struct {
	file *os.File
	left int
	err  error // why the file is not complete
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 && b.err == nil {
		b.err = fmt.Errorf("they have written more than %d MiB", maxTestOutput>>20)
	}
	if b.err == nil {
		_, b.err = b.file.Write(p)
	}
	return len(p), nil
}

// compare refuses a change with which tests no longer run, or are skipped, that did run before.
func (t *tester) compare(ctx context.Context, got testRun) error {
	if got.Results == nil {
		t.say("the output of the tests has no form that is known: only their exit code counts")
		return nil
	}
	s := t.settings.Of(pipeline.Test)
	before, err := t.onBase(ctx, s, true)
	if err != nil {
		return err
	}
	if before.Results == nil {
		t.say("the tests have no results without the change (%s): only their exit code counts", before.Failed)
		return nil
	}
	found := integrity.CompareResults(before.Results, got.Results)
	if len(found) > 0 { // by chance, or for a reason outside of the change?
		again, err := t.onBase(ctx, s, false)
		if err != nil {
			return err
		}
		found = integrity.CompareResults(before.Results.Same(again.Results), got.Results)
	}
	for i := range found {
		found[i].Review = t.facts.Rules.Kind == change.Evolution
	}
	if end := attempt.Weakened(pipeline.Test, found, t.facts); end != nil {
		return end
	}
	t.reviews = append(t.reviews, found...)
	t.checks = append(t.checks, outcome.Check{
		Name: fmt.Sprintf("%d results of tests before the change, %d with it", before.Results.Ran(),
			got.Results.Ran()),
		Passed: len(found) == 0,
	})
	return nil
}

// onBase returns how a command ends on the commit from which the attempt began. If that is known from an earlier run it
// is not run again, unless stored is false.
func (t *tester) onBase(ctx context.Context, s pipeline.Stage, stored bool) (r testRun, err error) {
	tree, err := t.site.treeOf(ctx, t.site.tree.Commit)
	if err != nil {
		return r, err
	}
	if stored {
		r, ok, err := t.runs.load(tree, s.Command, t.settings.SetUp)
		if ok {
			return r, nil
		}
		if err != nil {
			t.say("%v; they run again", err)
		}
	}
	t.say("%s runs without the change", plaintext.OneLine(strings.Join(s.Command, " "), 200))
	err = t.site.elsewhere(ctx, "base", t.site.tree.Commit, func(at *worktree.Worktree) (err error) {
		r, err = t.runTest(ctx, s, at)
		return err
	})
	if err == nil {
		t.keepRun(tree, r)
	}
	return r, err
}

// keepRun keeps how a command has ended on a tree. Without it, it is run again.
func (t *tester) keepRun(tree string, r testRun) {
	if err := t.runs.save(tree, t.settings.SetUp, r); err != nil {
		t.say("%v", err)
	}
}

// blame returns the end of an attempt whose checks fail. If they fail without the change, too, that is no matter of the
// attempt.
func (t *tester) blame(ctx context.Context, s pipeline.Stage, failed testRun) error {
	text := fmt.Sprintf("%s fails after %d fixes (%s): %s", strings.Join(failed.argv, " "), t.settings.FixAttempts,
		failed.Failed, attempt.Tail(failed.output, 3000))
	if t.proof != nil && slices.Equal(s.Command, t.proof.stage.Command) { // it fails without the change, of course
		return attempt.Retry(pipeline.Test, outcome.VerificationFailed, "%s", text)
	}
	before, err := t.onBase(ctx, s, true)
	if err == nil && before.Failed != "" { // still?
		before, err = t.onBase(ctx, s, false)
	}
	switch {
	case err != nil:
		return err
	case before.Failed != "":
		return attempt.Escalate(pipeline.Test, outcome.VerificationFailed, fmt.Sprintf("The command of the stage test "+
			"fails on %s without any change (%s). Repair it, and approve the task.", t.site.branch, before.Failed),
			"it fails without the change, too: %s", text)
	}
	return attempt.Retry(pipeline.Test, outcome.VerificationFailed, "%s", text)
}
