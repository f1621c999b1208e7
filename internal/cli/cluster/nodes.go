package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/show"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/cluster/nodes"
	"github.com/coppice-dev/coppice/internal/cluster/registry"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/store/etcd"
)

// NewNode returns the commands about the nodes of the fleet.
func NewNode(s *command.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Show, drain and remove the nodes of a fleet",
		Long: `Show, drain and remove nodes: the machines of a fleet. coppice cluster init and coppice cluster
join make them. These commands need the store of the fleet, but no daemon.`,
	}
	cmd.AddCommand(newNodeList(s), newNodeShow(s), newNodeDrain(s), newNodeRemove(s))
	return cmd
}

const nodeMissing = "the name of a node is missing; coppice node ls lists them"

func newNodeList(s *command.Streams) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the nodes of the fleet",
		Long: `List the nodes of the fleet. AGENTS are those that run on a node, or have run there last.
A node that is lost was stopped, or is cut off from the store: its agents have stopped, or do
so within their grace. One with other files has a coppice.toml, or a file that it names, that
differs from that of the controller: after a takeover by it, its own files count.`,
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			all := []nodes.Info{}
			err := asNode(s, file, "coppice node ls", func(ctx context.Context, _ nodeOf, db *etcd.Store) (err error) {
				all, err = nodes.List(ctx, db)
				return err
			})
			if err != nil {
				return err
			}
			return s.Print(all, func(p terminal.Paint, width int) []string { return nodeTable(all, p, width) })
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	command.ConfigFlag(cmd, &file)
	s.JSONFlag(cmd, "an array")
	return cmd
}

func newNodeShow(s *command.Streams) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a node of the fleet with its agents",
		Args:  command.One("node", nodeMissing),
		RunE: func(_ *cobra.Command, args []string) error {
			var n nodes.Info
			find := func(ctx context.Context, _ nodeOf, db *etcd.Store) (err error) {
				n, _, err = nodes.Find(ctx, db, args[0])
				return err
			}
			if err := asNode(s, file, "coppice node show", find); err != nil {
				return codedNode(err)
			}
			return s.Print(n, func(p terminal.Paint, width int) []string { return nodeLines(n, time.Now(), p, width) })
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	command.ConfigFlag(cmd, &file)
	s.JSONFlag(cmd, "an object")
	return cmd
}

func newNodeDrain(s *command.Streams) *cobra.Command {
	var file string
	var undo bool
	cmd := &cobra.Command{
		Use:   "drain NAME",
		Short: "Drain a node: others take over its work",
		Long: `Drain a node, for example before its machine is shut down: it takes no agents, and does not
become the controller. If it is the controller, it stops the agents in order, and another
node starts them. It is refused if no other node is ready. With --undo the node takes agents
again.`,
		Args: command.One("node", nodeMissing),
		RunE: func(_ *cobra.Command, args []string) error {
			var state nodes.State
			drain := func(ctx context.Context, _ nodeOf, db *etcd.Store) (err error) {
				state, err = nodes.Drain(ctx, db, args[0], !undo)
				return err
			}
			if err := asNode(s, file, "coppice node drain", drain); err != nil {
				return codedNode(err)
			}
			return s.PrintLines(fmt.Sprintf("node %s is %s", plaintext.Line(args[0]), state))
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	command.ConfigFlag(cmd, &file)
	cmd.Flags().BoolVar(&undo, "undo", false, "the node takes agents again")
	return cmd
}

func newNodeRemove(s *command.Streams) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "rm NAME",
		Short: "Remove a node that no longer runs from the fleet",
		Long: `Remove a node from the fleet. The others no longer admit it, until it joins again. A node
that runs is not removed: stop its daemon first. What lets its machine into etcd stays there:
if the fleet has a password or a client certificate for etcd, the command says what to do.`,
		Args: command.One("node", nodeMissing),
		RunE: func(_ *cobra.Command, args []string) error {
			var l etcd.Location
			err := asNode(s, file, "coppice node rm", func(ctx context.Context, n nodeOf, db *etcd.Store) error {
				l = n.member.Location()
				return nodes.Remove(ctx, db, args[0])
			})
			if err != nil {
				return codedNode(err)
			}
			return s.PrintLines(append([]string{"node " + plaintext.Line(args[0]) + " is removed"}, keptLines(l)...)...)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	command.ConfigFlag(cmd, &file)
	return cmd
}

// keptLines says what a machine that was removed still has for etcd, which is what all nodes have, and what to do.
// There are none if etcd needs no credentials.
func keptLines(l etcd.Location) []string {
	var kept, other, end []string
	if l.User != "" {
		user := plaintext.Line(l.User)
		kept, other = append(kept, "the password of user "+user+" of etcd"), append(other, "user")
		end = append(end, "  then remove the old one: etcdctl user delete "+user)
	}
	if l.Cert != "" {
		kept, other = append(kept, "the client certificate of the nodes for etcd"), append(other, "certificate")
		end = append(end, "  then revoke the old one: etcd --client-crl-file FILE")
	}
	if len(kept) == 0 {
		return nil
	}
	return append([]string{
		"its machine keeps " + strings.Join(kept, ", and ") + ": with that it reads and changes the whole fleet",
		"  make another " + strings.Join(other, " and ") + ", and on each node: coppice cluster init --store URL, " +
			"coppice down --local --keep-agents, coppice up -d",
	}, end...)
}

// codedNode adds the exit code.
func codedNode(err error) error {
	if errors.Is(err, registry.ErrUnknown) {
		return command.Exit(command.ExitNotFound, err)
	}
	return err
}

// nodeTable shows nodes.
func nodeTable(all []nodes.Info, p terminal.Paint, width int) []string {
	header := []string{"NAME", "STATE", "AGENTS", "ADDRESS", "LABELS", "VERSION"}
	var rows [][]string
	for _, n := range all {
		rows = append(rows, []string{
			n.Name, show.NodeState(n.State, n.Controller, n.OtherFiles), show.AgentsOn(len(n.Paths), n.Capacity),
			terminal.Cell(n.Address), terminal.Cell(show.Labels(n.Labels)), terminal.Cell(n.Version),
		})
	}
	bold := terminal.BoldHeader(p)
	return terminal.Table(header, rows, width, func(row, column int, text string) string {
		if row > 0 && column == 1 {
			return show.PaintNode(p, all[row-1].State, text)
		}
		return bold(row, column, text)
	})
}

// nodeLines shows one node.
func nodeLines(n nodes.Info, now time.Time, p terminal.Paint, width int) []string {
	state := show.PaintNode(p, n.State, show.NodeState(n.State, n.Controller, n.OtherFiles))
	lines := []string{p.Bold(plaintext.Line(n.Name)) + " " + state}
	field := func(label, text string) {
		if text != "" {
			line := "  " + p.Dim(fmt.Sprintf("%-8s", label)) + plaintext.Line(text)
			lines = append(lines, terminal.WrapAll([]string{line}, 10, width)...)
		}
	}
	field("address", n.Address)
	field("labels", show.Labels(n.Labels))
	field("version", n.Version)
	if n.OtherFiles {
		field("files", "differ from those of the controller, which count until this node takes over: "+
			"make them the same")
	}
	field("joined", terminal.Clock(n.Joined, now))
	field("agents", show.AgentsOn(len(n.Paths), n.Capacity))
	for _, path := range n.Paths {
		field("", path)
	}
	return lines
}
