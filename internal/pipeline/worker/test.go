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
)

// test runs the checks of the repository. When they fail the model may repair its change a few times. It returns the
// change that has passed.
func (a *run) test(ctx context.Context, done *attempt.Done) (*change.Change, error) {
	c, err := a.check(ctx)
	if err != nil {
		return nil, err
	}
	s, ok := a.begin(pipeline.Test)
	all := a.checking(s, ok)
	if len(all) == 0 {
		return c, nil
	}
	for fix := 0; ; fix++ {
		runs, err := a.runTests(ctx, all, a.tree.Path)
		if err != nil {
			return nil, err
		}
		got := runs[len(runs)-1]
		if got.Failed == "" {
			a.note(fmt.Sprintf("tests passed after %d fixes", fix))
			return c, a.passed(ctx, c, runs)
		}
		if fix == a.settings.FixAttempts {
			return nil, a.blame(ctx, all[len(runs)-1], got)
		}
		a.say("test has failed (%s); fix %d of %d begins", got.Failed, fix+1, a.settings.FixAttempts)
		a.enter(pipeline.Implement)
		d, err := a.edit(ctx, a.settings.Of(pipeline.Implement), changedPaths(c), func(f attempt.Facts) string {
			return attempt.FixPrompt(f, strings.Join(got.argv, " "), got.Failed, got.output)
		})
		if err != nil {
			return nil, err
		}
		done.Add(d)
		if c, err = a.check(ctx); err != nil {
			return nil, err
		}
		a.enter(pipeline.Test)
	}
}

// checking returns the commands that check a change: the check that the task names, and that of the stage test, unless
// it is skipped.
func (a *run) checking(s pipeline.Stage, stage bool) (all []pipeline.Stage) {
	if a.proof != nil {
		all = append(all, a.proof.stage)
	}
	if stage {
		all = append(all, s)
	}
	return all
}

// runTests runs commands in a directory until one fails.
func (a *run) runTests(ctx context.Context, all []pipeline.Stage, dir string) (runs []testRun, err error) {
	for _, s := range all {
		got, err := a.runTest(ctx, s, dir)
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
func (a *run) passed(ctx context.Context, c *change.Change, runs []testRun) error {
	// What was tested is what is committed: a test may have written files.
	if err := verify(ctx, c, pipeline.Test, outcome.VerificationFailed, "the work tree has changed while its tests "+
		"ran; they may write only what .gitignore names"); err != nil {
		return err
	}
	tests := runs
	if a.proof != nil {
		if err := a.prove(ctx, c); err != nil {
			return err
		}
		tests = runs[1:]
	}
	for _, got := range runs {
		a.checks = append(a.checks, outcome.Check{Name: checkName(strings.Join(got.argv, " ")), Passed: true})
	}
	for _, got := range tests {
		if err := a.compare(ctx, got); err != nil {
			return err
		}
	}
	for _, got := range runs {
		a.keepRun(c.Tree, got)
	}
	return nil
}

// checkName returns the name of a check in evidence.
func checkName(text string) string { return plaintext.OneLine(text, 200) }

// runTest runs a command with the rights of the stage test in a directory. It fails if that could not run, or was
// killed, which says nothing.
func (a *run) runTest(ctx context.Context, s pipeline.Stage, dir string) (r testRun, err error) {
	file, err := os.OpenFile(filepath.Join(a.dir, "results"), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	out := &bounded{file: file, left: maxTestOutput}
	got, err := a.executeTo(ctx, pipeline.Test, s, dir, "", out)
	if err != nil {
		return r, err
	}
	r = testRun{argv: s.Command, output: got.output}
	if got.failed != nil {
		if got.failed.Obstacle == outcome.Crash {
			return r, attempt.Called(a.stage, "", *got.failed)
		}
		r.Failed = got.failed.Reason
	}
	if out.err != nil {
		a.say("the results of the tests are not compared: %v", out.err)
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
func (a *run) compare(ctx context.Context, got testRun) error {
	if got.Results == nil {
		a.say("the output of the tests has no form that is known: only their exit code counts")
		return nil
	}
	s := a.settings.Of(pipeline.Test)
	before, err := a.onBase(ctx, s, true)
	if err != nil {
		return err
	}
	if before.Results == nil {
		a.say("the tests have no results without the change (%s): only their exit code counts", before.Failed)
		return nil
	}
	found := integrity.CompareResults(before.Results, got.Results)
	if len(found) > 0 { // by chance, or for a reason outside of the change?
		again, err := a.onBase(ctx, s, false)
		if err != nil {
			return err
		}
		found = integrity.CompareResults(before.Results.Same(again.Results), got.Results)
	}
	for i := range found {
		found[i].Review = a.facts.Rules.Kind == change.Evolution
	}
	if end := attempt.Weakened(pipeline.Test, found, a.facts); end != nil {
		return end
	}
	a.reviews = append(a.reviews, found...)
	a.checks = append(a.checks, outcome.Check{
		Name: fmt.Sprintf("%d results of tests before the change, %d with it", before.Results.Ran(),
			got.Results.Ran()),
		Passed: len(found) == 0,
	})
	return nil
}

// onBase returns how a command ends on the commit from which the attempt began. If that is known from an earlier run it
// is not run again, unless stored is false.
func (a *run) onBase(ctx context.Context, s pipeline.Stage, stored bool) (r testRun, err error) {
	tree, err := a.treeOf(ctx, a.tree.Commit)
	if err != nil {
		return r, err
	}
	if stored {
		r, ok, err := a.runs.load(tree, s.Command, a.settings.SetUp)
		if ok {
			return r, nil
		}
		if err != nil {
			a.say("%v; they run again", err)
		}
	}
	a.say("%s runs without the change", plaintext.OneLine(strings.Join(s.Command, " "), 200))
	err = a.elsewhere(ctx, "base", a.tree.Commit, func(dir string) (err error) {
		r, err = a.runTest(ctx, s, dir)
		return err
	})
	if err == nil {
		a.keepRun(tree, r)
	}
	return r, err
}

// keepRun keeps how a command has ended on a tree. Without it, it is run again.
func (a *run) keepRun(tree string, r testRun) {
	if err := a.runs.save(tree, a.settings.SetUp, r); err != nil {
		a.say("%v", err)
	}
}

// blame returns the end of an attempt whose checks fail. If they fail without the change, too, that is no matter of the
// attempt.
func (a *run) blame(ctx context.Context, s pipeline.Stage, failed testRun) error {
	text := fmt.Sprintf("%s fails after %d fixes (%s): %s", strings.Join(failed.argv, " "), a.settings.FixAttempts,
		failed.Failed, attempt.Tail(failed.output, 3000))
	if a.proof != nil && slices.Equal(s.Command, a.proof.stage.Command) { // it fails without the change, of course
		return attempt.Retry(pipeline.Test, outcome.VerificationFailed, "%s", text)
	}
	before, err := a.onBase(ctx, s, true)
	if err == nil && before.Failed != "" { // still?
		before, err = a.onBase(ctx, s, false)
	}
	switch {
	case err != nil:
		return err
	case before.Failed != "":
		return attempt.Escalate(pipeline.Test, outcome.VerificationFailed, fmt.Sprintf("The command of the stage test "+
			"fails on %s without any change (%s). Repair it, and approve the task.", a.branch, before.Failed), "it "+
			"fails without the change, too: %s", text)
	}
	return attempt.Retry(pipeline.Test, outcome.VerificationFailed, "%s", text)
}
