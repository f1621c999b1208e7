package belief

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/belief"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/value"
)

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
				plaintext.Line(name), plaintext.Line(a.Path))
		}
	}
	return doc, nil
}

// writeWhole writes a file atomically.
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
				return importDiffs(ctx, s, c, diffs)
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
				if err != nil || len(diffs) == 0 {
					return err
				}
				return cmp.Or(printDiffs(s, diffs), command.Exit(command.ExitFailure, nil))
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
		return belief.Document{}, fmt.Errorf("%s: %w", plaintext.Line(path), belief.DocumentTooLarge(len(data)))
	}
	doc, err := belief.ParseDocument(data)
	if err != nil {
		err = fmt.Errorf("%s:%w", plaintext.Line(path), err)
	}
	return doc, err
}

// compare returns the changes that importing a document would make.
func compare(ctx context.Context, c *api.Client, doc belief.Document) (diffs []belief.Difference, err error) {
	status, err := status.Get.Call(ctx, c, api.None{})
	if err != nil {
		return nil, err
	}
	doc = doc.Of(status.Project)
	for _, path := range slices.Sorted(maps.Keys(doc.Agents)) {
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
		lines[i] = plaintext.Line(d.String())
	}
	return s.PrintLines(lines...)
}

func importDiffs(ctx context.Context, s *command.Streams, c *api.Client, diffs []belief.Difference) error {
	for len(diffs) > 0 {
		path, set := diffs[0].Path, value.Named{}
		for len(diffs) > 0 && diffs[0].Path == path {
			set[diffs[0].Name] = diffs[0].Want
			diffs = diffs[1:]
		}
		if _, err := belief.Import.Call(ctx, c, belief.ImportRequest{Path: path, Beliefs: set}); err != nil {
			return fmt.Errorf("%w (nothing of this agent was imported; those before it in the file were)", err)
		}
		if err := s.PrintLines(fmt.Sprintf("%s: %d imported", plaintext.Line(path), len(set))); err != nil {
			return err
		}
	}
	return nil
}
