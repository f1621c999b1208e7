// Package belief has the commands about beliefs, for people and for agents.
package belief

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/belief"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/status"
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
			agents, err := command.Call(r.Look, belief.List, belief.ListRequest{Path: strings.Join(args, "")})
			if err != nil {
				return err
			}
			if s.JSON {
				return s.PrintJSON(agents)
			}
			var rows [][]string
			for _, a := range agents {
				for _, b := range a.Beliefs {
					note := b.Problem
					if !a.Known {
						note = strings.TrimSuffix("the agent is no longer in the file; "+note, "; ")
					}
					rows = append(rows, append([]string{proc.Plain(a.Path)},
						append(beliefRow(b), proc.Plain(note))...))
				}
			}
			return printBeliefs(s, append([]string{"AGENT"}, append(beliefHeader(), "NOTE")...), rows)
		},
		ValidArgsFunction: r.CompletePath(false),
	}
	r.Flags(cmd)
	s.JSONFlag(cmd, "an array of agents, each with its beliefs; values of more than 4 KiB are left out")
	return cmd
}

func beliefHeader() []string { return []string{"BELIEF", "TYPE", "PERSISTENT", "ORIGIN", "VALUE"} }

func beliefRow(b belief.Info) []string {
	v, keeps := b.Value.Brief(60), "no"
	if b.Value == "" {
		v = fmt.Sprintf("(%d bytes)", b.Size)
	}
	if b.Persistent {
		keeps = "yes"
	}
	return []string{proc.Plain(b.Name), proc.Plain(b.Type), keeps, proc.Plain(b.Origin), v}
}

func printBeliefs(s *command.Streams, header []string, rows [][]string) error {
	width, tty := terminal.Size(s.Out)
	p := terminal.NewPaint(tty)
	return s.PrintLines(terminal.Table(header, rows, width, func(row, _ int, text string) string {
		if row == 0 {
			return p.Bold(text)
		}
		return text
	})...)
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
					return printRaw(s, ctx, c, args[0], args[1], aside)
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

func printRaw(s *command.Streams, ctx context.Context, c *api.Client, path, name string, aside bool) error {
	raw, err := belief.ReadRaw.Call(ctx, c, belief.RawRequest{Path: path, Name: name})
	if err != nil {
		return err
	}
	record := raw.Record
	if aside {
		record = raw.Aside
	}
	if record == nil {
		return command.Exitf(command.ExitNotFound, "there is no record of the belief %s of %s", proc.Plain(name),
			proc.Plain(path))
	}
	text := string(record)
	if _, tty := terminal.Size(s.Out); tty {
		text = proc.Plain(text)
	}
	return s.PrintLines(text)
}

// printValues prints the value of a single belief, else an object of all.
func printValues(s *command.Streams, list []belief.Info, single, asString bool) error {
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
		return fmt.Errorf("%s is no string but %s", list[0].Name, value.Describe(v))
	case asString && tty:
		text = proc.Plain(raw)
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

func newExport(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	var to string
	cmd := &cobra.Command{
		Use:   "export [PATH]",
		Short: "Export beliefs to a file",
		Long: `Write the persistent beliefs of all agents, or of those at and below PATH, as one JSON
document. The beliefs of each agent are those of one moment.`,
		Args: command.AtMostOne("path"),
		RunE: func(_ *cobra.Command, args []string) error {
			return r.Look(func(ctx context.Context, c *api.Client) error {
				doc, err := export(ctx, s, c, strings.Join(args, ""))
				if err != nil {
					return err
				}
				if to == "" {
					return doc.Write(s.Out)
				}
				return writeWhole(to, doc)
			})
		},
		ValidArgsFunction: r.CompletePath(false),
	}
	r.Flags(cmd)
	cmd.Flags().StringVarP(&to, "output", "o", "", "the `FILE` to write, instead of standard output")
	return cmd
}

func export(ctx context.Context, s *command.Streams, c *api.Client, path string) (belief.Document, error) {
	status, err := status.Get.Call(ctx, c, api.None{})
	if err != nil {
		return belief.Document{}, err
	}
	agents, err := belief.List.Call(ctx, c, belief.ListRequest{Path: path})
	if err != nil {
		return belief.Document{}, err
	}
	doc := belief.Document{Version: belief.Version, Project: status.Project, Agents: belief.AgentValues{}}
	for _, a := range agents {
		e, err := belief.Export.Call(ctx, c, belief.ExportRequest{Path: a.Path})
		if err != nil {
			return belief.Document{}, err
		}
		if len(e.Beliefs) > 0 {
			doc.Agents[a.Path] = e.Beliefs
		}
		for _, name := range e.Unreadable {
			fmt.Fprintf(s.Err,
				"coppice: %s of %s cannot be read and is left out; coppice belief get --raw shows it\n",
				proc.Plain(name), proc.Plain(a.Path))
		}
	}
	return doc, nil
}

// writeWhole writes a file that is never there half.
func writeWhole(path string, doc belief.Document) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err = doc.Write(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func newImport(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	var dry bool
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Import beliefs from an export",
		Long: `Set the beliefs in an export; for each agent all or none. Other beliefs stay. Agents
need not be in coppice.toml. - reads standard input. Paths are relative to the project, whose
name may differ.`,
		Args: oneFile,
		RunE: func(_ *cobra.Command, args []string) error {
			doc, err := readDocument(s.In, args[0])
			if err != nil {
				return err
			}
			return r.Ask(func(ctx context.Context, c *api.Client) error {
				diffs, err := compare(ctx, c, doc)
				if err != nil {
					return err
				}
				if dry {
					return printDiffs(s, diffs)
				}
				return importDiffs(s, ctx, c, diffs)
			})
		},
	}
	r.Flags(cmd)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only show what would change")
	return cmd
}

func newDiff(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	cmd := &cobra.Command{
		Use:   "diff FILE",
		Short: "Compare beliefs with an export",
		Long:  `Show what importing FILE would change. The exit code is 1 if it would change anything.`,
		Args:  oneFile,
		RunE: func(_ *cobra.Command, args []string) error {
			doc, err := readDocument(s.In, args[0])
			if err != nil {
				return err
			}
			return r.Look(func(ctx context.Context, c *api.Client) error {
				diffs, err := compare(ctx, c, doc)
				if err == nil {
					err = printDiffs(s, diffs)
				}
				if err == nil && len(diffs) > 0 {
					err = command.Exit(command.ExitFailure, nil)
				}
				return err
			})
		},
	}
	r.Flags(cmd)
	return cmd
}

func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("expected one file, such as coppice belief export -o FILE writes; see %s --help",
			cmd.CommandPath())
	}
	return nil
}

func readDocument(stdin *os.File, path string) (belief.Document, error) {
	f := stdin
	if path != "-" {
		var err error
		if f, err = os.Open(path); err != nil {
			return belief.Document{}, err
		}
		defer f.Close()
	}
	data, err := readBounded(f, belief.MaxDocument)
	if err != nil {
		return belief.Document{}, err
	}
	if len(data) > belief.MaxDocument {
		return belief.Document{}, fmt.Errorf("%s: %w", proc.Plain(path), belief.DocumentTooLarge(len(data)))
	}
	doc, err := belief.ParseDocument(data)
	if err != nil {
		err = fmt.Errorf("%s:%w", proc.Plain(path), err)
	}
	return doc, err
}

// compare says what is to change for the beliefs to be those of a document.
func compare(ctx context.Context, c *api.Client, doc belief.Document) (diffs []belief.Difference, err error) {
	status, err := status.Get.Call(ctx, c, api.None{})
	if err != nil {
		return nil, err
	}
	doc = doc.Of(status.Project)
	var paths []string
	for path := range doc.Agents {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		have, err := belief.Export.Call(ctx, c, belief.ExportRequest{Path: path})
		if err != nil && !errors.Is(err, api.ErrNotFound) {
			return nil, err
		}
		diffs = append(diffs, belief.Differences(path, have.Beliefs, doc.Agents[path])...)
	}
	return diffs, nil
}

func printDiffs(s *command.Streams, diffs []belief.Difference) error {
	if len(diffs) == 0 {
		return nil
	}
	lines := make([]string, len(diffs))
	for i, d := range diffs {
		lines[i] = proc.Plain(d.String())
	}
	return s.PrintLines(lines...)
}

func importDiffs(s *command.Streams, ctx context.Context, c *api.Client, diffs []belief.Difference) error {
	for len(diffs) > 0 {
		path, set := diffs[0].Path, value.Named{}
		for len(diffs) > 0 && diffs[0].Path == path {
			set[diffs[0].Name] = diffs[0].Want
			diffs = diffs[1:]
		}
		if _, err := belief.Import.Call(ctx, c, belief.ImportRequest{Path: path, Beliefs: set}); err != nil {
			return fmt.Errorf("%w (nothing of this agent was imported; those before it in the file were)", err)
		}
		if err := s.PrintLines(fmt.Sprintf("%s: %d imported", proc.Plain(path), len(set))); err != nil {
			return err
		}
	}
	return nil
}
