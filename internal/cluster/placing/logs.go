package placing

import (
	"context"
	"slices"

	"github.com/coppice-dev/coppice/internal/cluster/registry"
	"github.com/coppice-dev/coppice/internal/cluster/remote"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
)

// Logs returns the logs of an agent on other nodes, that of the node where it was started last at the end. Nodes that
// are no longer known are left out. The logs of an agent that was removed are those that Removed has found.
func (r *Runtime) Logs(path string) (all []logfile.NodeLog) {
	place, ok := r.places.Of(path)
	nodes := r.places.history(path)
	if !ok {
		nodes = r.removed.of(path)
	}
	for _, node := range nodes {
		if node == r.places.Node {
			continue
		}
		far, ok := r.at(node).(tailer)
		if !ok || !r.places.isKnown(node) {
			continue
		}
		all = append(all, logfile.NodeLog{
			Node: node, Current: node == place.Node,
			Open: func(ctx context.Context, s logfile.Start) logfile.Reader { return far.Tail(ctx, path, s) },
		})
	}
	return all
}

// tailer is a runtime of another node that reads the logs there.
type tailer interface {
	Tail(ctx context.Context, path string, s logfile.Start) *remote.Tail
}

// history returns the nodes that have run an agent, oldest first.
func (p *Places) history(path string) []string {
	place, ok := p.Of(path)
	if !ok {
		return nil
	}
	all := append([]string{place.Node}, place.Before...)
	slices.Reverse(all)
	return all
}

// isKnown reports whether a node is in the fleet.
func (p *Places) isKnown(node string) bool {
	return slices.ContainsFunc(p.Nodes(), func(n registry.Node) bool { return n.Name == node })
}
