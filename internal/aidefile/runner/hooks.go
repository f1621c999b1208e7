package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli/call"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/supervisor"
)

// hookTimeout bounds each hook, and the comment on an issue.
const hookTimeout = 5 * time.Minute

// hooks runs hooks one after the other, until one fails.
func (r *Runner) hooks(ctx context.Context, when string, hooks []string) error {
	for _, hook := range hooks {
		if err := r.hook(ctx, when, hook); err != nil {
			return fmt.Errorf("%s %s: %w", when, hook, err)
		}
	}
	return nil
}

func (r *Runner) hook(ctx context.Context, when, hook string) error {
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	r.env["COPPICE_HOOK"] = when
	defer delete(r.env, "COPPICE_HOOK")
	switch hook {
	case aidefile.InjectVault:
		return nil
	case aidefile.CommitMemory:
		return r.commitMemory(ctx)
	}
	return r.execute(ctx, "/bin/sh", "./"+hook)
}

// bounded returns the context of one hook.
func (r *Runner) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, r.hookTimeout, fmt.Errorf("it has not ended within %v", r.hookTimeout))
}

// execute runs a program of a hook.
func (r *Runner) execute(ctx context.Context, argv ...string) error {
	exit, err := call.Run(ctx, r.program(argv, nil, nil, r.out)) // it is not an answer
	switch {
	case err != nil:
		return err
	case exit.Kind != supervisor.Normal:
		return errors.New(exit.String())
	}
	return nil
}

// commitMemory commits the changes of the memory, if there are any.
func (r *Runner) commitMemory(ctx context.Context) error {
	if _, err := os.Stat(r.memory()); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	git := []string{"git", "-C", filepath.Dir(r.request.Aidefile)}
	if err := r.execute(ctx, append(git, "add", "-A", "--", "memory")...); err != nil {
		return err
	}
	if r.execute(ctx, append(git, "diff", "--cached", "--quiet", "--", "memory")...) == nil {
		return nil // no changes
	}
	return r.execute(ctx, append(git, "commit", "--quiet", "--message", r.file.Persona.Name+": memory", "--",
		"memory")...)
}

// closeIssue comments the summary on the issue and closes it.
func (r *Runner) closeIssue(ctx context.Context) error {
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	number := fmt.Sprint(r.request.Issue)
	if err := r.execute(ctx, "gh", "issue", "comment", number, "--body-file",
		filepath.Join(r.dir, summaryName)); err != nil {
		return err
	}
	return r.execute(ctx, "gh", "issue", "close", number)
}
