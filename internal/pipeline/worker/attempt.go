package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/change"
	"github.com/coppice-dev/coppice/internal/change/pattern"
	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/internal/pipeline/attempt"
	"github.com/coppice-dev/coppice/internal/pipeline/progress"
	"github.com/coppice-dev/coppice/internal/pullrequest"
	"github.com/coppice-dev/coppice/internal/release"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/worktree"
)

// run is an attempt while it is made.
type run struct {
	*worker
	assignment Assignment
	settings   pipeline.Settings // of the assignment
	facts      attempt.Facts
	trees      *worktree.Repo
	repo       *release.Repo
	runs       runStore
	proof      *proof              // nil if the task names no check
	remote     *pullrequest.Remote // of pull requests; nil if changes are merged
	branch     string              // that the change is for
	base       string              // where the attempt begins
	kept       string              // the branch of a change that a person has approved
	tree       *worktree.Worktree
	ports      []int // of the worktree in which commands run

	stage    pipeline.Name     // that goes on
	progress progress.Progress // what was shown last

	notes   []string                  // what was done so far, for the next attempt
	learnt  attempt.Report            // what models have said
	reviews []change.Finding          // what a person should look at
	checks  []outcome.Check           // that have passed
	spent   [pipeline.NumStages]int64 // tokens
	used    int64                     // tokens of all calls
}

// attempt makes an attempt and returns its outcome. The error is an accountError, or the worker cannot work.
func (w *worker) attempt(ctx context.Context, d task.Detail, mine Assignment) (outcome.Report, error) {
	a := &run{worker: w, assignment: mine, settings: mine.Settings}
	a.facts.Task, a.facts.Number = d, d.Task.Claims
	now := time.Now()
	a.progress = progress.Progress{
		Incarnation: w.incarnation, Task: d.Task.ID, Attempt: d.Task.Claims, BeganAt: now, Since: now,
	}
	a.announce(a.progress)
	done, err := a.make(ctx)
	if ctx.Err() != nil {
		return outcome.Report{}, context.Cause(ctx)
	}
	var end *attempt.End
	switch {
	case err == nil:
		return a.completed(done), nil
	case errors.As(err, &end):
		r := a.ended(end)
		if _, err := outcome.New(r); err != nil { // what a model has said cannot be an outcome
			r = a.ended(attempt.Retry(end.Stage, outcome.SchemaMismatch, "%v", err))
		}
		return r, nil
	}
	return outcome.Report{}, err
}

// make prepares the attempt, and takes the task through the stages.
func (a *run) make(ctx context.Context) (*released, error) {
	if err := a.makeDirs(); err != nil {
		return nil, err
	}
	if err := a.open(ctx); err != nil {
		return nil, err
	}
	if err := landlock.Supported(); err != nil && a.settings.Writable == nil {
		a.say("stages may write wherever you can: %v", err)
	}
	if err := a.setMode(ctx); err != nil {
		return nil, err
	}
	if err := a.readProof(); err != nil {
		return nil, err
	}
	if done, err := a.before(ctx); done != nil || err != nil {
		return done, err
	}
	if err := a.setBase(ctx); err != nil {
		return nil, err
	}
	if err := a.likes(ctx); err != nil {
		return nil, err
	}
	// A damaged worktree is no reason to blame a stage: all of them begin again, once.
	for again := true; ; again = false {
		done, err := a.inTree(ctx, a.through)
		if again && errors.Is(err, worktree.ErrCorrupt) && ctx.Err() == nil {
			a.note("the worktree was damaged; all stages began again")
			a.say("%v; all stages begin again", err)
			a.checks, a.reviews = nil, nil
			continue
		}
		if errors.Is(err, worktree.ErrCorrupt) {
			err = attempt.Retry(a.stage, outcome.OtherObstacle, "the worktree was damaged twice: %v", err)
		}
		return done, err
	}
}

// open opens the repository.
func (a *run) open(ctx context.Context) (err error) {
	setUp := runner{a}
	o := worktree.Options{SetUp: a.settings.SetUp, Runner: setUp}
	if a.settings.Ports > 0 {
		o.Ports = worktree.PortRange{First: pipeline.FirstPort, Last: pipeline.LastPort, Each: a.settings.Ports}
	}
	a.trees, err = worktree.Open(ctx, a.settings.Repository, o)
	if err == nil {
		a.repo, err = release.Open(ctx, a.settings.Repository)
	}
	if err == nil {
		err = a.openRuns(ctx)
	}
	if a.branch = a.settings.Branch; err == nil && a.branch == "" {
		a.branch, err = a.current(ctx)
	}
	if err != nil && ctx.Err() == nil {
		return attempt.Escalate(pipeline.Plan, outcome.Configuration,
			fmt.Sprintf("The pipeline cannot use its repository %s: %v", a.settings.Repository, err), "%v", err)
	}
	if p := a.settings.PullRequest; err == nil && p != nil {
		a.remote, err = pullrequest.Open(ctx, a.settings.Repository, p.Remote, a.env)
		return a.notProposed(err)
	}
	return err
}

// setBase sets where the attempt begins: at the branch, or at that of the remote if people merge there.
func (a *run) setBase(ctx context.Context) (err error) {
	if a.base = a.branch; a.remote != nil {
		a.base, err = a.remote.Tip(ctx, a.branch)
	}
	return a.notProposed(err)
}

// setMode chooses the mode of the task.
func (a *run) setMode(ctx context.Context) error {
	t := a.facts.Task.Task
	rules, err := kindRules(a.settings.Modes)
	if err != nil {
		return err
	}
	kind, why := change.Choose(rules, change.Kind(a.settings.Mode), a.taskFacts())
	a.facts.Rules, err = change.NewRules(kind, a.settings.Protected, a.settings.Tests, a.settings.Validation)
	if err != nil {
		return err
	}
	depth, err := a.depth(ctx)
	if err != nil {
		return err
	}
	// The check of a task is that of the whole: without it the last subtask would complete the task.
	a.facts.MayDivide = depth < maxDepth && t.Fixes == ""
	a.note("mode " + string(kind))
	a.say("%s (attempt %d): %s mode: %s", t.ID, a.facts.Number, kind, why)
	return nil
}

// taskFacts returns what rules match.
func (a *run) taskFacts() change.TaskFacts {
	t := a.facts.Task.Task
	return change.TaskFacts{Labels: t.Labels, Priority: t.Priority, Paths: attempt.Files(a.facts.Task.Text),
		Explicit: change.Kind(t.Mode), ByPerson: true} // nobody else sets it
}

// kindRules returns the rules that choose a mode.
func kindRules(all []pipeline.Rule) (rules []change.KindRule, err error) {
	for _, r := range all {
		k := change.KindRule{Kind: change.Kind(r.Mode), Labels: r.Labels, Priorities: r.Priorities}
		if len(r.Paths) > 0 {
			paths, err := pattern.NewList(r.Paths...)
			if err != nil {
				return nil, err
			}
			k.Paths = &paths
		}
		rules = append(rules, k)
	}
	return rules, nil
}

// inTree calls do in a new worktree of the attempt, and removes it afterwards. What was not merged is kept.
func (a *run) inTree(ctx context.Context, do func(context.Context) (*released, error)) (done *released, err error) {
	if err := a.removeEarlier(ctx); err != nil {
		return nil, err
	}
	at := worktree.Attempt{Task: a.facts.Task.Task.ID, Number: a.facts.Number, Base: a.base}
	if a.tree, err = a.trees.Create(ctx, at); err != nil {
		if errors.Is(err, errSetUp) {
			return nil, attempt.Retry(a.stage, outcome.VerificationFailed, "the set-up of the worktree has failed: %v",
				err)
		}
		return nil, err
	}
	defer func() {
		if a.tree.Release() == nil && ctx.Err() == nil {
			a.remove(ctx, at)
		}
	}()
	err = a.withPorts(a.tree.Ports, func() (err error) {
		done, err = do(ctx)
		return err
	})
	if err != nil && ctx.Err() == nil {
		if broken := a.trees.Check(ctx, at); errors.Is(broken, worktree.ErrCorrupt) {
			return nil, broken
		}
	}
	return done, err
}

// withPorts calls do, in which commands run in a worktree with these ports.
func (a *run) withPorts(ports []int, do func() error) error {
	before := a.ports
	a.ports = ports
	defer func() { a.ports = before }()
	return do()
}

// removeEarlier removes the worktrees that earlier attempts at the task have left, as their worker was killed.
func (a *run) removeEarlier(ctx context.Context) error {
	all, err := a.trees.List(ctx)
	if err != nil {
		return err
	}
	id := a.facts.Task.Task.ID
	for _, s := range all {
		if (s.Task == id || strings.HasPrefix(s.Task, id+" ")) && !s.InUse { // see elsewhere
			a.remove(ctx, s.Attempt)
		}
	}
	return nil
}

// remove removes a worktree. If it cannot be removed without losing work, it stays, for coppice gc.
func (a *run) remove(ctx context.Context, at worktree.Attempt) {
	removed, err := a.trees.Remove(ctx, at)
	switch {
	case err != nil:
		a.say("%s stays: %v", at, err)
	case removed.Parked != "":
		a.say("%s is removed; what was not merged is %s", at, removed.Parked)
	}
}

// note adds to what the next attempt is told of this one.
func (a *run) note(text string) { a.notes = append(a.notes, text) }

// ended returns the outcome of an attempt that has not completed its task.
func (a *run) ended(e *attempt.End) outcome.Report {
	learnt := a.learnt.With(e.Learned)
	return outcome.Report{
		Kind: e.Kind, Question: e.Question, Condition: e.Condition, Subtasks: e.Subtasks, Evidence: e.Evidence,
		Context: &outcome.Context{
			Approach: attempt.Approach(a.notes, e.Stage),
			Obstacle: e.Obstacle, Discoveries: learnt.Discoveries, Recommendation: learnt.Recommendation,
			Explored: outcome.Explored{Files: learnt.Explored},
		},
	}
}

// runner runs the set-up command of a worktree.
type runner struct{ a *run }

var errSetUp = errors.New("the set-up command has failed")

// Run implements worktree.Runner.
func (r runner) Run(ctx context.Context, t worktree.Worktree, argv []string) error {
	stage := pipeline.Stage{Command: argv, Timeout: pipeline.DefaultTimeout}
	var got result
	err := r.a.withPorts(t.Ports, func() (err error) {
		got, err = r.a.execute(ctx, pipeline.Implement, stage, t.Path, "")
		return err
	})
	if err != nil {
		return err
	}
	if got.failed != nil {
		return fmt.Errorf("%w: %s: %s", errSetUp, got.failed.Reason, attempt.Tail(got.output, 2000))
	}
	return nil
}

// makeDirs makes the directories that stages may write to. Temporary files of the attempt before are removed.
func (w *worker) makeDirs() error {
	if err := os.RemoveAll(w.temporary()); err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(w.temporary(), 0o700), os.MkdirAll(w.cache(), 0o700))
}

func (w *worker) temporary() string { return filepath.Join(w.dir, "tmp") }
func (w *worker) cache() string     { return filepath.Join(w.dir, "cache") }
