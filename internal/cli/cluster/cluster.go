// Package cluster has the commands that make machines the nodes of a fleet.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cluster/member"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/store/etcd"
)

// New returns the commands about the fleet of several machines.
func New(s *command.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Run one fleet on several machines",
		Long: `Make machines the nodes of one fleet, whose state is in etcd. The first machine starts
the fleet with coppice cluster init. coppice cluster token prints a token there, with which
other machines join: coppice cluster join TOKEN. After that, coppice up runs the daemon of a
machine as a node.`,
	}
	cmd.AddCommand(newInit(s), newJoin(s), newToken(s))
	return cmd
}

// storeTime bounds the work of a command with the store.
const storeTime = 15 * time.Second

// withStore calls do with the store at a location, and bounds its time.
func withStore(ctx context.Context, s *command.Streams, l etcd.Location,
	do func(context.Context, *etcd.Store) error) (err error) {
	bounded, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	db, err := etcd.Open(bounded, l, logger(s))
	if err == nil {
		err = errors.Join(do(bounded, db), db.Close())
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the store %v: no answer within %v", l, storeTime)
	}
	return err
}

func logger(s *command.Streams) *slog.Logger {
	return slog.New(slog.NewTextHandler(s.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// find returns the file of a project and the project. what is the command, which only people may run.
func find(flag, what string) (path string, p project.Project, err error) {
	if path, err = command.FindConfig(flag); err != nil {
		return path, p, err
	}
	if err := command.OnlyPeople(path, what); err != nil {
		return path, p, err
	}
	p, err = project.Open(path)
	return path, p, err
}

// loadMember returns the member that this machine is in a project; nil if it is none, or has not finished becoming one.
func loadMember(p project.Project) (*member.Member, error) {
	m, err := member.Load(p.Node())
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, member.ErrIncomplete) {
		return nil, nil
	}
	return m, err
}
