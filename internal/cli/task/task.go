// Package task has the commands about tasks, for people and for agents.
package task

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/task"
)

// worker configures the commands for those who use them: people or agents.
type worker struct {
	command string // the command line of the group
	short   string
	long    string
	agent   bool
	flags   func(*cobra.Command)
	ask     command.Via
	look    command.Via   // for reading, see command.Remote.Look
	by      func() string // the name of the person; empty for agents
	// completion is command.Remote.Complete; nil disables completion.
	completion func(func(context.Context, *api.Client, []string) ([]cobra.Completion, error)) cobra.CompletionFunc
}

// New returns the task commands for people.
func New(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	return newGroup(s, worker{
		command: "coppice task", short: "Add, list and edit tasks",
		long: `Add, list and edit tasks, the durable work of agents. A task is ready when it is open,
its time has come, its dependencies are completed and its children closed. One incarnation of an agent
claims it at a time; when that ends, the task is open again.`,
		flags: r.Flags, ask: r.Ask, look: r.Look, by: command.UserName, completion: r.Complete,
	})
}

// NewOwn returns the task commands for agents.
func NewOwn(s *command.Streams) *cobra.Command {
	return newGroup(s, worker{
		command: "coppice agent task", short: "Claim tasks and report on them", agent: true,
		long: `Claim tasks and report on them. A claim belongs to this incarnation: when it ends, the
task is open again. coppice agent hook shows pending tasks.`,
		flags: func(*cobra.Command) {}, ask: command.AskAsAgent, look: command.AskAsAgent,
		by: func() string { return "" },
	})
}

func newGroup(s *command.Streams, w worker) *cobra.Command {
	cmd := &cobra.Command{Use: "task", Short: w.short, Long: w.long}
	cmd.AddCommand(newAdd(s, w), newList(s, w), newShow(s, w), newTree(s, w), newEdit(s, w), newComment(s, w),
		newClaim(s, w), newDep(s, w))
	cmd.AddCommand(newActs(s, w)...)
	if !w.agent {
		cmd.AddCommand(newBlock(s, w), newImport(s, w), newExport(s, w))
		cmd.AddCommand(newPoolActs(s, w)...)
	}
	var prepare func(*cobra.Command)
	prepare = func(group *cobra.Command) {
		for _, sub := range group.Commands() {
			if sub.HasSubCommands() {
				prepare(sub)
				continue
			}
			w.flags(sub)
			run := sub.RunE
			sub.RunE = func(cmd *cobra.Command, args []string) error {
				if err := plainArguments(cmd, args); err != nil {
					return err
				}
				return run(cmd, args)
			}
			if sub.ValidArgsFunction == nil {
				sub.ValidArgsFunction = cobra.NoFileCompletions
			}
		}
	}
	prepare(cmd)
	return cmd
}

func newAdd(s *command.Streams, w worker) *cobra.Command {
	var d task.Draft
	var text textFlags
	var priority int
	var status, when string
	cmd := &cobra.Command{
		Use:   "add TITLE...",
		Short: "Add a task",
		Long: `Add a task, and print its id when it is durable. A task with a pool is for any agent
of that pool, one with an assignee for that agent or person alone. One with neither waits until
it gets one, or is claimed by its id. If TITLE is -, the first line of standard input is the
title and the rest the text.`,
		Example: "  " + w.command + " add 'Fix the login' --pool web -p 1 --label bug\n" +
			"  " + w.command + " add 'Release' --depends-on web-x4k,web-9fj\n" +
			"  git diff | " + w.command + " add 'Review this' --assignee web/reviewer -m -",
		Args: command.Some("the title is missing"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			d.Title = strings.Join(args, " ")
			d.Status = task.Status(status)
			if cmd.Flags().Changed("priority") {
				d.Priority = &priority
			}
			if d.Title == "-" {
				if text.given(cmd) {
					return command.Usagef("two texts given: with - as the title, standard input has both")
				}
				text.text = "-"
			}
			if d.Text, err = text.read(s, task.MaxText, "text of a task"); err != nil {
				return err
			}
			if d.Title == "-" {
				d.Title, d.Text, _ = strings.Cut(d.Text, "\n")
				d.Title, d.Text = strings.TrimRight(d.Title, "\r"), strings.TrimLeft(d.Text, "\r\n")
			}
			if d.NotBefore, err = notBefore(when, time.Now()); err != nil {
				return err
			}
			if d.Key == "" {
				d.Key = rand.Text()
			}
			made, err := command.Call(w.ask, task.Add, task.AddRequest{Task: d, By: w.by()})
			if err != nil {
				return err
			}
			warnUnclaimable(s, w, made)
			return s.PrintLine(made, plaintext.Line(made.ID))
		},
	}
	text.add(cmd, "of the task")
	flags := cmd.Flags()
	flags.StringVar(&d.DoneWhen, "done-when", "",
		"the criterion; agents complete it only with evidence for this `TEXT`")
	if !w.agent {
		flags.StringVar(&d.Fixes, "fixes", "",
			"a `COMMAND` that fails now and has to pass then; pipelines run it, without a shell")
		flags.StringVar(&d.Mode, "mode", "", "the mode of pipelines for it: maintenance or evolution")
	}
	flags.StringVar(&d.Pool, "pool", "", "the `POOL` whose agents may do it")
	flags.StringVarP(&d.Assignee, "assignee", "a", "",
		"the agent (path) or person `WHO` does it")
	flags.IntVarP(&priority, "priority", "p", task.DefaultPriority, "from 0, most urgent, to 4")
	flags.StringVarP(&d.Type, "type", "t", "task", "task, bug, feature, epic, chore, or another `WORD`")
	flags.StringSliceVarP(&d.Labels, "label", "l", nil, "a `LABEL`; can be repeated")
	flags.StringVar(&d.Parent, "parent", "", "the `ID` of its parent, which waits for it")
	flags.StringSliceVar(&d.DependsOn, "depends-on", nil,
		"the `ID` of a task that must be completed first; can be repeated")
	flags.StringVar((*string)(&d.IfDependencyFails), "if-dependency-fails", string(task.WaitForIt),
		"wait, cancel or continue, if a task that it depends on is cancelled")
	flags.StringVar(&status, "status", "open", "open, blocked or deferred")
	flags.StringVar(&when, "not-before", "",
		"it cannot be claimed before this `TIME`, such as 2h from now")
	flags.IntVar(&d.MaxClaims, "max-claims", 0,
		"park it after `N` claims that have failed; 0 for the max_claims of [daemon]")
	flags.StringVar(&d.Key, "key", "", "add only one task with this `KEY`")
	flags.BoolVar(&d.Ephemeral, "ephemeral", false, "remove it when it has been closed for the ttl in [daemon]")
	s.JSONFlag(cmd, "the task as an object")
	return cmd
}

func newEdit(s *command.Streams, w worker) *cobra.Command {
	var e task.Edit
	var text textFlags
	var title, doneWhen, fixes, mode, kind, status, pool, assignee, parent, when, rule string
	var priority, maxClaims int
	cmd := &cobra.Command{
		Use:   "edit ID",
		Short: "Edit a task",
		Long: `Edit the named fields of a task. Setting the status to open, blocked or deferred ends
the claim on it.`,
		Args: oneTask(w),
		RunE: func(cmd *cobra.Command, args []string) error {
			changed := cmd.Flags().Changed
			e.Title, e.Type = given(changed("title"), title), given(changed("type"), kind)
			e.DoneWhen, e.Fixes = given(changed("done-when"), doneWhen), given(changed("fixes"), fixes)
			e.Mode = given(changed("mode"), mode)
			e.Pool, e.Assignee = given(changed("pool"), pool), given(changed("assignee"), assignee)
			e.Parent, e.Status = given(changed("parent"), parent), given(changed("status"), task.Status(status))
			e.IfDependencyFails = given(changed("if-dependency-fails"), task.DependencyRule(rule))
			e.Priority, e.MaxClaims = given(changed("priority"), priority), given(changed("max-claims"), maxClaims)
			if changed("not-before") {
				at, err := notBefore(when, time.Now())
				if err != nil {
					return err
				}
				e.NotBefore = &at
			}
			if text.given(cmd) {
				content, err := text.read(s, task.MaxText, "text of a task")
				if err != nil {
					return err
				}
				e.Text = &content
			}
			t, err := command.Call(w.ask, task.Change, task.EditRequest{ID: args[0], Edit: e, By: w.by()})
			if err != nil {
				return err
			}
			if changed("pool") || changed("assignee") {
				warnUnclaimable(s, w, t)
			}
			return s.PrintLine(t, plaintext.Line(t.ID)+" is changed")
		},
	}
	text.add(cmd, "that replaces the present one")
	flags := cmd.Flags()
	flags.StringVar(&title, "title", "", "the new title")
	flags.StringVar(&doneWhen, "done-when", "", "the criterion, as `TEXT`; '' for none")
	if !w.agent {
		flags.StringVar(&fixes, "fixes", "",
			"a `COMMAND` that fails now and has to pass then; '' for none")
		flags.StringVar(&mode, "mode", "", "the mode of pipelines for it: maintenance, evolution or ''")
	}
	flags.StringVarP(&kind, "type", "t", "", "task, bug, feature, epic, chore, or another `WORD`")
	flags.StringVar(&status, "status", "", "open, blocked or deferred")
	flags.IntVarP(&priority, "priority", "p", 0, "from 0, most urgent, to 4")
	flags.StringVar(&pool, "pool", "", "the `POOL` whose agents may do it; '' for none")
	flags.StringVarP(&assignee, "assignee", "a", "", "the agent (path) or person `WHO` does it; '' for none")
	flags.StringVar(&parent, "parent", "", "the `ID` of its parent; '' for none")
	flags.StringVar(&rule, "if-dependency-fails", "",
		"wait, cancel or continue, if a task that it depends on is cancelled")
	flags.StringVar(&when, "not-before", "",
		"it cannot be claimed before this `TIME`, such as 2h from now; none for none")
	flags.IntVar(&maxClaims, "max-claims", 0,
		"park it after `N` claims that have failed; 0 for the max_claims of [daemon]")
	flags.StringSliceVarP(&e.AddLabels, "label", "l", nil, "add a `LABEL`; can be repeated")
	flags.StringSliceVar(&e.RemoveLabels, "remove-label", nil, "remove a `LABEL`; can be repeated")
	s.JSONFlag(cmd, "the task as an object")
	w.complete(cmd)
	return cmd
}

// given returns a pointer to the value of a flag; nil if the flag was not given.
func given[T any](changed bool, v T) *T {
	if !changed {
		return nil
	}
	return &v
}

// oneTask checks the arguments of a command that takes one task.
func oneTask(w worker) cobra.PositionalArgs {
	return command.One("task", "the id of a task is missing; "+w.command+" ls lists them")
}

// changeTask calls a route that changes a task, and reports the result.
func changeTask[Req any](s *command.Streams, w worker, route api.Route[Req, task.Task], req Req, done string) error {
	return command.Show(s, w.ask, route, req, func(t task.Task, _ terminal.Paint, _ int) []string {
		return []string{plaintext.Line(t.ID) + " is " + done}
	})
}

func newComment(s *command.Streams, w worker) *cobra.Command {
	var text textFlags
	cmd := &cobra.Command{
		Use:   "comment ID [TEXT]",
		Short: "Comment on a task",
		Long: `Comment on a task, for the next agent that works on it. The text is TEXT, or that of
-m or --text-file, or standard input.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 2 {
				return fmt.Errorf("unexpected argument %q; texts of several words have to be quoted", args[2])
			}
			return oneTask(w)(cmd, args[:min(len(args), 1)])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 2 && text.given(cmd):
				return command.Usagef("two texts given, expected one")
			case len(args) == 2:
				text.text = args[1]
			case !text.given(cmd):
				text.text = "-"
			}
			content, err := text.read(s, task.MaxComment, "comment")
			if err != nil {
				return err
			}
			req := task.CommentRequest{ID: args[0], Text: content, Key: rand.Text(), By: w.by()}
			return changeTask(s, w, task.AddComment, req, "commented on")
		},
	}
	text.add(cmd, "of the comment")
	w.complete(cmd)
	return cmd
}

func newDep(s *command.Streams, w worker) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dep",
		Short: "Edit the dependencies between tasks",
	}
	for _, sub := range []struct {
		use, short string
		edit       func([]string) task.Edit
	}{
		{"add ID ON...", "Add tasks that a task depends on",
			func(on []string) task.Edit { return task.Edit{AddDepends: on} }},
		{"rm ID ON...", "Remove tasks that a task depends on",
			func(on []string) task.Edit { return task.Edit{RemoveDepends: on} }},
	} {
		one := &cobra.Command{
			Use: sub.use, Short: sub.short,
			Args: func(_ *cobra.Command, args []string) error {
				if len(args) < 2 {
					return errors.New("expected the id of a task, and those of the tasks that it depends on")
				}
				return nil
			},
			RunE: func(_ *cobra.Command, args []string) error {
				req := task.EditRequest{ID: args[0], Edit: sub.edit(args[1:]), By: w.by()}
				return changeTask(s, w, task.Change, req, "changed")
			},
		}
		w.complete(one)
		cmd.AddCommand(one)
	}
	return cmd
}
