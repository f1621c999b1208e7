package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cluster/election"
	"github.com/coppice-dev/coppice/internal/cluster/node"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/shutdown"
)

// fleetOf returns the project of a command if this machine is a node of a fleet with it. The project of an agent is
// that of its daemon, wherever its files are.
func fleetOf(r *command.Remote) (p project.Project, ok bool) {
	file, err := r.Find()
	if err == nil {
		p, err = project.Open(file)
	}
	return p, err == nil && p.InFleet()
}

// downLocal ends the daemon of this node, and not the fleet.
func downLocal(
	ctx context.Context, c *api.Client, r *command.Remote, s *command.Streams, p project.Project, keep bool,
) error {
	holder, _ := p.Locked() // before another daemon may have the lock
	ending, err := node.End.Call(ctx, c, node.EndRequest{Keep: keep})
	if errors.Is(err, api.ErrDown) {
		return alreadyDown(ctx, r, s, keep)
	}
	if err != nil {
		return err
	}
	var report <-chan shutdown.Report
	if ending.Controller && !keep {
		report = farewell(ctx, c)
	}
	err = untilReplaced(ctx, c, holder.PID, func() (bool, error) {
		now, locked := p.Locked()
		return locked && now.PID != holder.PID, nil
	})
	if err == nil {
		err = ended(ctx, r, s, keep, report)
	}
	if err == nil {
		_, err = fmt.Fprintln(s.Out, downText(ending, keep))
	}
	return err
}

// downText says what becomes of the agents of a node, and of the fleet.
func downText(n node.Ending, keep bool) string {
	text := "node " + plaintext.Line(n.Node) + " is down; "
	switch {
	case keep:
		return text + fmt.Sprintf("its agents go on for up to %v, until a daemon takes them over: coppice up -d",
			election.DefaultTTL)
	case n.Controller:
		return text + "its agents are stopped, and the next controller starts them on another node"
	}
	return text + "its agents are stopped, and start on other nodes that take them"
}
