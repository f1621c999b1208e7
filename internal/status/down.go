package status

import (
	"cmp"
	"fmt"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/supervisor"
)

// This file shows nodes that no supervisor runs at the moment, because one above them
// does not run. The file names them all the same, and people ask for them.

// downAt returns a node whose supervisor does not run, and with that of what it is in.
func (l live) downAt(path string, f Fleet) (Node, error) {
	for at := parent(path); at != "" && at != f.RootPath; at = parent(at) {
		above, id := cut(at)
		if sup := l.Supervisor(above); sup != nil {
			info, err := l.child(sup, id)
			if err != nil {
				return Node{}, err
			}
			return l.downNode(path, l.node(at, info, f), f), nil
		}
	}
	return Node{}, fmt.Errorf("%s: the fleet does not run: %w", path, api.ErrStopping)
}

// down appends what the fleet declares below a node that does not run. above is the first
// node on the way down that does not.
func (l live) down(all []Node, path string, above Node, f Fleet) []Node {
	d := f.Nodes[path]
	if d == nil {
		return all
	}
	for _, child := range d.Children {
		at := path + "/" + child.Name()
		all = l.down(append(all, l.downNode(at, above, f)), at, above, f)
	}
	return all
}

// downNode returns a node below one that does not run, with that as its reason.
func (l live) downNode(path string, above Node, f Fleet) Node {
	info := l.Unlisted(path)
	switch above.State {
	case supervisor.Running.String(), supervisor.Starting.String(), supervisor.Waiting.String(),
		supervisor.Restarting.String(), supervisor.Quarantined.String():
		info.State = supervisor.Waiting
	case supervisor.Suspended.String():
		info.State, info.Reason = supervisor.Suspended, supervisor.ReasonSuspended
	}
	n := l.node(path, info, f)
	switch why := l.opts.SuspendedBy(path); {
	case why != "":
		n.State, n.Reason = supervisor.Suspended.String(), why
	case info.State == supervisor.Waiting:
		n.Reason, n.NextAt = cmp.Or(above.Reason, above.Path+" is "+above.State), above.NextAt
	default:
		n.Reason = above.Path + " is " + above.State
	}
	return n
}
