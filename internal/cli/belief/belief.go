// Package belief has the commands about beliefs, for people and for agents.
package belief

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/belief"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/value"
)

func New(s *command.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "belief",
		Short: "Show and edit the beliefs of agents",
		Long: `Show and edit beliefs, the named JSON values of agents. Persistent ones survive
restarts of the agent, the daemon and the machine. Agents use: coppice agent belief`,
	}
	cmd.AddCommand(newLs(s), newGet(s), newSet(s), newRm(s), newExport(s),
		newImport(s), newDiff(s))
	return cmd
}

func newLs(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	cmd := &cobra.Command{
		Use:   "ls [PATH]",
		Short: "List the beliefs of agents",
		Args:  command.AtMostOne("path"),
		RunE: func(_ *cobra.Command, args []string) error {
			req := belief.ListRequest{Path: strings.Join(args, "")}
			return command.Show(s, r.Look, belief.List, req, agentLines)
		},
		ValidArgsFunction: r.CompletePath(false),
	}
	r.Flags(cmd)
	s.JSONFlag(cmd, "an array of agents, each with its beliefs; values of more than 4 KiB are left out")
	return cmd
}

var header = []string{"BELIEF", "TYPE", "PERSISTENT", "ORIGIN", "VALUE"}

func row(b belief.Belief) []string {
	v, keeps := b.Value.Brief(60), "no"
	if b.Value == "" {
		v = fmt.Sprintf("(%d bytes)", b.Size)
	}
	if b.Persistent {
		keeps = "yes"
	}
	return []string{plaintext.Line(b.Name), plaintext.Line(b.Type), keeps, plaintext.Line(string(b.Origin)), v}
}

// agentLines returns a table of the beliefs of several agents.
func agentLines(agents []belief.Agent, p terminal.Paint, width int) []string {
	var rows [][]string
	for _, a := range agents {
		for _, b := range a.Beliefs {
			note := b.Problem
			if !a.Known {
				note = strings.TrimSuffix("the agent is no longer in the file; "+note, "; ")
			}
			rows = append(rows, slices.Concat([]string{plaintext.Line(a.Path)}, row(b), []string{plaintext.Line(note)}))
		}
	}
	all := slices.Concat([]string{"AGENT"}, header, []string{"NOTE"})
	return terminal.Table(all, rows, width, terminal.BoldHeader(p))
}

func newGet(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	var raw, aside, asString bool
	cmd := &cobra.Command{
		Use:   "get PATH [NAME...]",
		Short: "Print beliefs of an agent",
		Long: `Print beliefs of an agent: the value of one NAME, or an object of several or all.
--raw prints the stored record, even if it is damaged; --aside prints a record that was
replaced because it could not be used.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if (raw || aside) && len(args) != 2 {
				return errors.New("--raw and --aside take a path and one name")
			}
			return command.OnePath(cmd, args[:min(1, len(args))])
		},
		RunE: func(_ *cobra.Command, args []string) error {
			return r.Look(func(ctx context.Context, c *api.Client) error {
				if raw || aside {
					return printRaw(ctx, s, c, args[0], args[1], aside)
				}
				list, err := belief.Read.Call(ctx, c, belief.ReadRequest{Path: args[0], Names: args[1:]})
				if err != nil {
					return err
				}
				return printValues(s, list, len(args) == 2, asString)
			})
		},
		ValidArgsFunction: r.CompletePath(false),
	}
	r.Flags(cmd)
	cmd.Flags().BoolVar(&raw, "raw", false, "print the record as it is stored")
	cmd.Flags().BoolVar(&aside, "aside", false, "print the record that was replaced because it could not be used")
	stringFlag(cmd, &asString, "print a string as it is, without quotes")
	s.JSONFlag(cmd, "all that is known of them, an array of objects")
	return cmd
}

func stringFlag(cmd *cobra.Command, into *bool, what string) {
	cmd.Flags().BoolVar(into, "string", false, what)
}

func printRaw(ctx context.Context, s *command.Streams, c *api.Client, path, name string, aside bool) error {
	raw, err := belief.ReadRaw.Call(ctx, c, belief.RawRequest{Path: path, Name: name})
	if err != nil {
		return err
	}
	record := raw.Record
	if aside {
		record = raw.Aside
	}
	if record == nil {
		return command.Exitf(command.ExitNotFound, "there is no record of the belief %s of %s", plaintext.Line(name),
			plaintext.Line(path))
	}
	text := string(record)
	if _, tty := terminal.Size(s.Out); tty {
		text = plaintext.Line(text)
	}
	return s.PrintLines(text)
}

// printValues prints the value of a single belief, or an object of all.
func printValues(s *command.Streams, list []belief.Belief, single, asString bool) error {
	if s.JSON {
		return s.PrintJSON(list)
	}
	if !single {
		all := make(value.Named, len(list))
		for _, b := range list {
			all[b.Name] = b.Value
		}
		return s.PrintJSON(all)
	}
	v := list[0].Value
	text := string(v)
	_, tty := terminal.Size(s.Out)
	switch raw, ok := v.Raw(); {
	case asString && !ok:
		return fmt.Errorf("%s is not a string but %s", list[0].Name, value.Describe(v))
	case asString && tty:
		text = plaintext.Line(raw)
	case asString:
		text = raw
	case tty:
		text = v.Brief(len(v))
	}
	return s.PrintLines(text)
}

func newSet(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	var asString bool
	cmd := &cobra.Command{
		Use:   "set PATH NAME=JSON... | set PATH NAME -",
		Short: "Set beliefs of an agent in one step",
		Long: `Set beliefs of an agent, all or none; the agent need not run. With - the value is read
from standard input. The command returns when the change is durable.`,
		Example: `  coppice belief set fleet/monitor check_count=0 'note="by hand"'
  coppice belief set fleet/monitor note --string - < note.txt`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := command.OnePath(cmd, args[:min(1, len(args))]); err != nil {
				return err
			}
			return checkPairs(args[1:])
		},
		RunE: func(_ *cobra.Command, args []string) error {
			set, err := parsePairs(s.In, args[1:], asString)
			if err != nil {
				return err
			}
			_, err = command.Call(r.Ask, belief.Change, belief.ChangeRequest{Path: args[0], Set: set})
			return err
		},
		ValidArgsFunction: r.CompletePath(false),
	}
	r.Flags(cmd)
	stringFlag(cmd, &asString, "values are text, not JSON")
	return cmd
}

func newRm(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	var all bool
	cmd := &cobra.Command{
		Use:   "rm PATH NAME... | rm PATH --all",
		Short: "Remove beliefs of an agent",
		Long:  `Remove stored beliefs. Beliefs that the file declares get their initial value again.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := command.OnePath(cmd, args[:min(1, len(args))]); err != nil {
				return err
			}
			if all != (len(args) == 1) {
				return errors.New("expected either names or --all")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			_, err := command.Call(r.Ask, belief.Change, belief.ChangeRequest{Path: args[0], Delete: args[1:],
				Clear: all})
			return err
		},
		ValidArgsFunction: r.CompletePath(false),
	}
	r.Flags(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "remove all beliefs of the agent")
	return cmd
}
