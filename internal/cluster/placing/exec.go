package placing

import (
	"context"
	"errors"
	"fmt"

	"github.com/coppice-dev/coppice/internal/cluster/remote"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

var _ runtime.Executor = (*Runtime)(nil)

// Exec implements runtime.Executor. The command runs on the node where the agent has its place. If the agent has ended
// and that node is lost, it runs on the one that would take the agent now.
func (r *Runtime) Exec(ctx context.Context, l runtime.Launch, line func(proc.Line)) (last []string, err error) {
	place, ok := r.places.Of(l.Path)
	if ok {
		if _, lost := r.places.ending(place); !lost {
			last, err = r.execOn(ctx, place, l, line)
			hasRun := !errors.Is(err, runtime.ErrFenced) && !errors.Is(err, remote.ErrNotSent)
			if hasRun || ctx.Err() != nil || !r.places.hasEnded(place) {
				return last, err
			}
		}
	}
	node, err := r.places.next(l.Path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", runtime.ErrNoNode, err)
	}
	return r.execOn(ctx, Place{Path: l.Path, Node: node, Epoch: r.places.epochOf(node)}, l, line)
}

// execOn runs a command on a node.
func (r *Runtime) execOn(
	ctx context.Context, at Place, l runtime.Launch, line func(proc.Line),
) (last []string, err error) {
	if at.Node == r.places.Node {
		return runtime.Exec(ctx, r.Runtime, l, line)
	}
	far, ok := r.at(at.Node).(runtime.Executor)
	if !ok {
		return nil, fmt.Errorf("running a command on node %s: %w", at.Node, runtime.ErrUnsupported)
	}
	l.Lease = at.Epoch
	held, cancel := r.places.whileHeld(ctx, at)
	defer cancel()
	last, err = far.Exec(held, l, line)
	switch {
	case err == nil:
	case errors.Is(err, runtime.ErrFenced):
		r.places.refuse(at)
	case held.Err() == nil || ctx.Err() != nil:
	case errors.Is(err, remote.ErrNotSent):
		err = fmt.Errorf("%w: node %s: %w", runtime.ErrNodeLost, at.Node, err)
	default:
		err = fmt.Errorf("%w: node %s, on which the command may have run", runtime.ErrNodeLost, at.Node)
	}
	return last, err
}

// next returns the node that would take an agent now.
func (p *Places) next(path string) (node string, err error) {
	w, err := p.wanted(path)
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.updateFleet()
	return p.fleet.Choose(w)
}
