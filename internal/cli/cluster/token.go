package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/cluster/jointoken"
	"github.com/coppice-dev/coppice/internal/cluster/member"
	"github.com/coppice-dev/coppice/internal/cluster/pki"
	"github.com/coppice-dev/coppice/internal/cluster/registry"
	"github.com/coppice-dev/coppice/internal/store/etcd"
	"github.com/coppice-dev/coppice/internal/timespan"
)

func newToken(s *command.Streams) *cobra.Command {
	var file string
	ttl := jointoken.DefaultLife
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Print a token with which machines join",
		Long: `Print a token with which other machines join the fleet of this one, for coppice cluster
join. It names this node and up to two others, whose daemons must run and be reachable. Any
number of machines may use it until it expires or is removed. It is a secret: a machine that
joins can do everything that this one can.`,
		Example: `  coppice cluster token
  coppice cluster token --ttl 10m | ssh b 'cd shop && coppice cluster join -'`,
		RunE: func(*cobra.Command, []string) error {
			if ttl <= 0 || ttl > jointoken.MaxLife {
				return command.Usagef("--ttl is %v; expected more than 0 and at most %s", ttl,
					timespan.Short(jointoken.MaxLife))
			}
			var token jointoken.Token
			var daemon bool
			err := asNode(s, file, "coppice cluster token", func(ctx context.Context, n nodeOf, db *etcd.Store) error {
				m := n.member
				daemon = n.runs
				addresses, err := addressesFor(ctx, s, m, db)
				if err != nil {
					return err
				}
				authority := pki.Hash(m.Current().Authority())
				token, err = jointoken.NewStore(db, logger(s)).Create(ctx, authority, addresses, ttl)
				return err
			})
			if err != nil {
				return err
			}
			if err := s.PrintLines(token.Text()); err != nil {
				return err
			}
			fmt.Fprintf(s.Err, "on another machine, in its project, within %s: coppice cluster join TOKEN\n",
				timespan.Short(ttl))
			if !daemon {
				fmt.Fprintln(s.Err, "no daemon of this node runs, which would let machines join; start it with: "+
					"coppice up -d")
			}
			if slices.ContainsFunc(token.Addresses, member.IsLocal) {
				fmt.Fprintf(s.Err, "only this machine reaches %s; change that with: coppice cluster init --advertise "+
					"HOST:PORT\n", token.Addresses[0])
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().Var((*timespan.Flag)(&ttl), "ttl", "how long the token is valid, such as 10m or 7d")
	command.ConfigFlag(cmd, &file)
	cmd.AddCommand(newTokenList(s), newTokenRemove(s))
	return cmd
}

// asNode calls do with this machine, which must be a node, and its store.
func asNode(s *command.Streams, file, what string,
	do func(context.Context, nodeOf, *etcd.Store) error) error {
	_, p, err := find(file, what)
	if err != nil {
		return err
	}
	m, err := member.Load(p.Node())
	if err != nil {
		return err
	}
	n := nodeOf{project: p, member: m}
	_, n.runs = p.Locked()
	ctx, stop := command.UntilSignal(context.Background())
	defer stop()
	return withStore(ctx, s, m.Location(), func(ctx context.Context, db *etcd.Store) error { return do(ctx, n, db) })
}

// addressesFor returns the addresses of nodes for a token, that of this one first.
func addressesFor(ctx context.Context, s *command.Streams, m *member.Member, db *etcd.Store) ([]string, error) {
	view, err := registry.NewView(ctx, db, logger(s))
	if err != nil {
		return nil, err
	}
	if err := view.Admit(m.Name(), m.Current().KeyHash()); err != nil {
		return nil, fmt.Errorf("node %s: %w", m.Name(), err)
	}
	nodes, _ := view.All()
	return chooseAddresses(m.Settings().Advertise, nodes), nil
}

// chooseAddresses returns an address and those of nodes that have announced valid ones, as many as a token may have.
func chooseAddresses(own string, nodes []registry.Node) []string {
	all := []string{own}
	for _, n := range nodes {
		if len(all) < jointoken.MaxAddresses && !slices.Contains(all, n.Address) &&
			jointoken.CheckAddress(n.Address) == nil {
			all = append(all, n.Address)
		}
	}
	return all
}

// tokenInfo is a token in JSON.
type tokenInfo struct {
	ID      string    `json:"id"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

func newTokenList(s *command.Streams) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the join tokens that are valid",
		Args:    command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			all := []tokenInfo{}
			list := func(ctx context.Context, _ nodeOf, db *etcd.Store) error {
				tokens, err := jointoken.NewStore(db, logger(s)).List(ctx)
				for _, t := range tokens {
					all = append(all, tokenInfo(t))
				}
				return err
			}
			err := asNode(s, file, "coppice cluster token ls", list)
			if err != nil {
				return err
			}
			return s.Print(all, func(p terminal.Paint, width int) []string {
				return tokenLines(all, time.Now(), p, width)
			})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	command.ConfigFlag(cmd, &file)
	s.JSONFlag(cmd, "an array")
	return cmd
}

func tokenLines(all []tokenInfo, now time.Time, p terminal.Paint, width int) []string {
	if len(all) == 0 {
		return []string{"no tokens are valid; make one with: coppice cluster token"}
	}
	var rows [][]string
	for _, t := range all {
		rows = append(rows, []string{t.ID, terminal.Age(t.Created, now), terminal.UntilText(&t.Expires, now)})
	}
	return terminal.Table([]string{"ID", "AGE", "EXPIRES"}, rows, width, terminal.BoldHeader(p))
}

func newTokenRemove(s *command.Streams) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "rm ID",
		Short: "Remove a join token",
		Long: `Remove a join token, with which no machine can join from then on. Machines that have
joined with it stay in the fleet.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 { // which are not shown, as one may be a token
				return errors.New(cmd.CommandPath() + " takes one argument, the ID of a token; " +
					"coppice cluster token ls lists them")
			}
			return jointoken.CheckID(args[0])
		},
		RunE: func(_ *cobra.Command, args []string) error {
			revoke := func(ctx context.Context, _ nodeOf, db *etcd.Store) error {
				return jointoken.NewStore(db, logger(s)).Revoke(ctx, args[0])
			}
			err := asNode(s, file, "coppice cluster token rm", revoke)
			if errors.Is(err, jointoken.ErrNone) {
				return command.Exit(command.ExitNotFound, err)
			}
			if err != nil {
				return err
			}
			return s.PrintLines("token " + args[0] + " is removed")
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	command.ConfigFlag(cmd, &file)
	return cmd
}
