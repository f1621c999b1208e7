package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/change"
	"github.com/coppice-dev/coppice/internal/change/integrity"
	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/internal/pipeline/attempt"
	"github.com/coppice-dev/coppice/internal/worktree"
)

// proof is the check that a task names: it has to fail without the change, and to pass with it.
type proof struct {
	stage  pipeline.Stage // with the rights of Test
	before testRun        // without the change
}

// readProof reads the check of the task, if it names one.
func (t *tester) readProof() error {
	text := t.facts.Task.Task.Fixes
	if text == "" {
		return nil
	}
	words, err := setting.Words(text)
	if err != nil {
		return attempt.Escalate(pipeline.Test, outcome.Configuration,
			fmt.Sprintf("The check %q cannot run: it has %v. Name another one.", text, err), "%v", err)
	}
	t.proof = &proof{stage: pipeline.Stage{
		Command: words, CLI: agentcli.Plain, Timeout: t.settings.Of(pipeline.Test).Timeout,
	}}
	return nil
}

// failsBefore makes sure that the check of the task fails, before any work is done. In evolution mode the change may
// add the test that fails: prove finds out.
func (t *tester) failsBefore(ctx context.Context) (err error) {
	if t.proof == nil {
		return nil
	}
	t.enter(pipeline.Test)
	t.proof.before, err = t.onBase(ctx, t.proof.stage, true)
	if err != nil || t.proof.before.Failed != "" || t.facts.Rules.Kind == change.Evolution {
		return err
	}
	return t.notShown(ctx)
}

// notShown asks a person about a check that has passed without the change, if it still does.
func (t *tester) notShown(ctx context.Context) (err error) {
	if t.proof.before, err = t.onBase(ctx, t.proof.stage, false); err != nil || t.proof.before.Failed != "" {
		return err
	}
	text := t.facts.Task.Task.Fixes
	return attempt.Escalate(pipeline.Test, outcome.VerificationFailed, fmt.Sprintf("The check %q passes on %s without "+
		"any change, so it does not show what is to be repaired. Name another one with coppice task edit %s --fixes, "+
		"or reject the task.", text, t.site.branch, t.facts.Task.Task.ID),
		"the check %q passes without the change", text)
}

// prove makes sure that the check of the task, which has passed with the change, fails without it. Tests that the
// change adds or edits are put onto the commit that it began from: it is the rest of the change that has to make it
// pass.
func (t *tester) prove(ctx context.Context, c *change.Change) error {
	before := t.proof.before
	tests := testSides(c, t.facts.Rules)
	if len(tests) == 0 {
		if before.Failed == "" {
			if err := t.notShown(ctx); err != nil {
				return err
			}
			before = t.proof.before
		}
	} else {
		with, err := t.withTests(ctx, c, tests)
		if err != nil {
			return err
		}
		if found := integrity.CompareCheck(t.facts.Task.Task.Fixes, with.Failed == "", true); len(found) > 0 {
			kind := outcome.VerificationFailed
			edits := slices.ContainsFunc(tests, func(t testSide) bool { return t.before.Mode != "" })
			if before.Failed != "" && edits { // the tests were made to pass
				kind = outcome.TestsWeakened
			}
			return attempt.Retry(pipeline.Test, kind, "with the tests of the change and without the rest of it: %s",
				found[0])
		}
		before = with
	}
	name := fmt.Sprintf("fails without the change (%s): %s", before.Failed, strings.Join(before.argv, " "))
	t.checks = append(t.checks, outcome.Check{Name: checkName(name), Passed: true})
	return nil
}

// testSide is a test that a change adds, edits or deletes. A side without a mode is no file.
type testSide struct {
	name          string
	before, after change.Side
}

// testSides returns the tests among the files of a change. A renamed file is deleted and added.
func testSides(c *change.Change, r change.Rules) (tests []testSide) {
	add := func(name string, before, after change.Side) {
		if _, ok := r.Tests.Match(name); ok {
			tests = append(tests, testSide{name, before, after})
		}
	}
	for _, f := range c.Files {
		switch f.Status {
		case change.Renamed:
			add(f.OldPath, f.Old, change.Side{})
			add(f.Path, change.Side{}, f.New)
		case change.Copied:
			add(f.Path, change.Side{}, f.New)
		default:
			add(f.Path, f.Old, f.New)
		}
	}
	return tests
}

// withTests runs the check of the task on the commit from which the attempt began, with the tests of the change.
func (t *tester) withTests(ctx context.Context, c *change.Change, tests []testSide) (r testRun, err error) {
	contents, err := c.Contents(ctx, c.Files)
	if err != nil {
		return r, err
	}
	t.say("the tests of the change run without the rest of it")
	err = t.site.elsewhere(ctx, "proof", c.Base, func(at *worktree.Worktree) (err error) {
		defer func() { // what is left in it is kept as work
			if err := place(at.Path, tests, contents, func(t testSide) change.Side { return t.before }); err != nil {
				t.say("%v", err)
			}
		}()
		if err := place(at.Path, tests, contents, func(t testSide) change.Side { return t.after }); err != nil {
			return attempt.Retry(pipeline.Test, outcome.VerificationFailed,
				"the tests of the change do not fit the commit that it began from: %v", err)
		}
		r, err = t.runTest(ctx, t.proof.stage, at)
		return err
	})
	return r, err
}

// place makes tests in a directory what they are on one side of a change. No name leads out of the directory.
func place(dir string, tests []testSide, contents map[string]string, of func(testSide) change.Side) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, t := range tests {
		if err := root.RemoveAll(t.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, t := range tests {
		side := of(t)
		if side.Mode == "" || side.Mode == change.Submodule {
			continue
		}
		err := root.MkdirAll(path.Dir(t.name), 0o755)
		switch {
		case err != nil:
		case side.Mode == change.Symlink:
			err = root.Symlink(side.Target, t.name)
		case side.Mode == change.Executable:
			err = root.WriteFile(t.name, []byte(contents[side.ID]), 0o755)
		default:
			err = root.WriteFile(t.name, []byte(contents[side.ID]), 0o644)
		}
		if err != nil {
			return fmt.Errorf("placing the tests of the change: %w", err)
		}
	}
	return nil
}
