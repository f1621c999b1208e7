package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cluster/election"
	"github.com/coppice-dev/coppice/internal/cluster/member"
	"github.com/coppice-dev/coppice/internal/cluster/node"
	"github.com/coppice-dev/coppice/internal/cluster/nodes"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/shutdown"
	"github.com/coppice-dev/coppice/internal/status"
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

// localEnd is the result of coppice down --local on a node, in JSON.
type localEnd struct {
	Node       string `json:"node"`
	Controller bool   `json:"controller"` // it was
	Up         bool   `json:"was_up"`     // its daemon ran
	Starting   bool   `json:"starting"`   // the daemon was starting, and waited for the store or for a lease
	Keep       bool   `json:"keep_agents"`
	// NoTaker says why no other node takes its agents, or that this is not known.
	NoTaker string `json:"no_taker,omitempty"`
}

// downLocal ends the daemon of this node, and not the fleet.
func downLocal(
	ctx context.Context, c *api.Client, r *command.Remote, s *command.Streams, p project.Project, keep bool,
) error {
	end := localEnd{Keep: keep}
	if self, err := member.Load(p.Node()); err == nil {
		end.Node = self.Name()
	}
	if !keep {
		end.NoTaker = noTaker(ctx, c, end.Node)
	}
	if end.NoTaker != "" {
		s.Complain(plaintext.Line(end.NoTaker) + "; agents of this node stop, and start again when a node takes " +
			"them; the store keeps their tasks and all else of the fleet")
	}
	holder, _ := p.Locked() // before another daemon may have the lock
	ending, err := node.End.Call(ctx, c, node.EndRequest{Keep: keep})
	if errors.Is(err, api.ErrDown) {
		if err := alreadyDown(ctx, r, s, keep); err != nil || !s.JSON {
			return err
		}
		return s.PrintJSON(end)
	}
	if err != nil {
		return err
	}
	end.Up, end.Node, end.Controller, end.Starting = true, ending.Node, ending.Controller, ending.Starting
	var report <-chan shutdown.Report
	if ending.Controller && !keep {
		report = farewell(ctx, c)
	}
	err = untilReplaced(ctx, c, holder.PID, func() (bool, error) {
		now, locked := p.Locked()
		return locked && now.PID != holder.PID, nil
	})
	if err == nil {
		err = ended(ctx, r, s, keep, ending.Starting, report)
	}
	if err == nil {
		err = s.PrintLine(end, downText(end))
	}
	return err
}

// takerTime bounds the time in which the controller says which nodes take agents.
const takerTime = 3 * time.Second

// noTaker says why no other node takes the agents of a node, or that this is not known; "" if one does.
func noTaker(ctx context.Context, c *api.Client, name string) string {
	bounded, cancel := context.WithTimeout(ctx, takerTime)
	defer cancel()
	st, err := status.Get.Call(bounded, c, api.None{})
	switch {
	case errors.Is(err, api.ErrDown):
		return "" // the node ran nothing that others could take
	case errors.Is(err, context.DeadlineExceeded):
		return "it is not known whether another node takes agents: the controller does not answer"
	case err != nil:
		return fmt.Sprintf("it is not known whether another node takes agents: %v", err)
	}
	return nodes.NoTaker(st.Nodes, name)
}

// downText says what becomes of the agents of a node, and of the fleet.
func downText(e localEnd) string {
	text := "node " + plaintext.Line(e.Node) + " is down; "
	switch {
	case e.Keep:
		return text + fmt.Sprintf("its agents go on for up to %v, until a daemon takes them over: coppice up -d",
			election.DefaultTTL)
	case e.Starting:
		return text + "its daemon was starting, and ran no agents yet"
	case e.NoTaker != "":
		return text + "its agents are stopped, and start when a node takes them"
	case e.Controller:
		return text + "its agents are stopped, and the next controller starts them on another node"
	}
	return text + "its agents are stopped, and start on other nodes that take them"
}
