package cluster

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cluster/jointoken"
	"github.com/coppice-dev/coppice/internal/cluster/member"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/etcd"
)

func newInit(s *command.Streams) *cobra.Command {
	var f nodeFlags
	var url string
	var fresh bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Start a fleet with a store in etcd",
		Long: `Make this machine the first node of a fleet, whose state is in etcd. Certificates, a key
and a password that the URL names are copied into .coppice/node, and given to machines that
join; nodes use the copies. If the store has a fleet already, this machine becomes a node of
it: all that this takes is the right to write the store.

Run it again to change settings, or the way to the store. Flags that are left out leave
settings as they are, and the daemon uses the new ones from its next start.

State that the project has in SQLite is not copied. To take it along, run
coppice store copy sqlite URL first.`,
		Example: `  coppice cluster init --store etcd://10.0.0.1,10.0.0.2,10.0.0.3/shop
  coppice cluster init --label zone=a --capacity 50`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.change(cmd)
			if err != nil {
				return coded(err)
			}
			lines, err := initialize(s, "coppice cluster init", f.file, url, c, fresh)
			if err != nil {
				return err
			}
			return s.PrintLines(lines...)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&url, "store", "", "the `URL` of the store: etcd://HOST[:PORT][,...][/PREFIX], or etcds:// "+
		"with ?ca=FILE&cert=FILE&key=FILE")
	cmd.Flags().BoolVar(&fresh, "fresh", false, "start with an empty store, although the project has state in SQLite")
	return cmd
}

// initialize makes this machine a node of the fleet with a store, or changes its settings. what is the command. The
// lines tell what was done, the first of them in short.
func initialize(s *command.Streams, what, file, url string, c member.Change, fresh bool) (lines []string, err error) {
	err = change(file, what, func(ctx context.Context, n nodeOf) error {
		l, err := n.locate(url)
		if err = cmp.Or(err, n.invalid); err != nil {
			return err
		}
		var r member.Result
		err = withStore(ctx, s, l, func(ctx context.Context, db *etcd.Store) error {
			if !fresh {
				if err := n.checkState(ctx, db, l); err != nil {
					return err
				}
			}
			r, err = member.Init(ctx, n.project.Node(), db, l, c)
			return coded(err)
		})
		if err != nil {
			return err
		}
		first := "this machine is node " + r.Name()
		switch {
		case r.NewFleet:
			first += " of a new fleet"
		case r.NewNode:
			first += " of the fleet that the store has already"
		}
		lines = n.lines(first, r)
		return nil
	})
	return lines, err
}

// Enter makes this machine a node of the fleet with a store, as coppice cluster init does without flags. It does
// nothing if it is one already.
func Enter(s *command.Streams, what, file, url string) error {
	_, p, err := find(file, what)
	if err != nil {
		return err
	}
	m, err := loadMember(p)
	if err != nil {
		return err
	}
	if m != nil {
		l, err := nodeOf{project: p, member: m}.locate(url)
		if have := m.Location(); err != nil || slices.Equal(l.Endpoints, have.Endpoints) && l.Prefix == have.Prefix {
			return err
		}
	}
	var c member.Change
	c.Hostname, _ = os.Hostname()
	lines, err := initialize(s, what, file, url, c, false)
	if err != nil {
		return err
	}
	return s.PrintLines(lines[0])
}

// maxToken bounds the text of a token in bytes.
const maxToken = 4 << 10

func newJoin(s *command.Streams) *cobra.Command {
	var f nodeFlags
	cmd := &cobra.Command{
		Use:   "join TOKEN",
		Short: "Join a fleet with a token",
		Long: `Make this machine a node of the fleet whose token this is. With - the token is read from
the standard input, so that neither ps nor the history of the shell shows it. The machine gets
its certificate and the way to the store from a node, and must reach the store itself.

Run it again to change settings, or after a failure: the machine keeps its key.`,
		Example: `  coppice cluster join - <token.txt
  coppice cluster join TOKEN --label zone=b --capacity 50`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 { // which are not shown, as one may be a token
				return errors.New(cmd.CommandPath() + " takes one argument, the token that coppice cluster token has " +
					"printed on a node, or - to read it from the standard input")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.change(cmd)
			if err != nil {
				return coded(err)
			}
			text := args[0]
			if text == "-" {
				if text, err = s.ReadText(maxToken, "join token"); err != nil {
					return err
				}
			}
			token, err := jointoken.Parse(text)
			if err != nil {
				return command.UsageError(err)
			}
			open := func(ctx context.Context, l etcd.Location) (store.Store, error) {
				return etcd.Open(ctx, l, logger(s))
			}
			return change(f.file, "coppice cluster join", func(ctx context.Context, n nodeOf) error {
				r, err := member.Join(ctx, n.project.Node(), token, c, open)
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if err != nil {
					return coded(err)
				}
				return s.PrintLines(n.lines("this machine is node "+r.Name()+" of the fleet", r)...)
			})
		},
	}
	f.add(cmd)
	return cmd
}
