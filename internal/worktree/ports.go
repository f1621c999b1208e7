package worktree

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
)

// choosePorts gives a worktree ports that no other record has and that are free now, and writes them
// into its record. Other worktrees can have them once the record is gone.
func (r *Repo) choosePorts(ctx context.Context, rec *record) error {
	want := r.options.Ports
	if len(rec.Ports) > 0 || want.Each == 0 {
		return nil
	}
	repo, err := r.dir.lockRepo(ctx)
	if err != nil {
		return err
	}
	taken, err := r.dir.takenPorts()
	if err == nil {
		rec.Ports, err = freePorts(ctx, want, taken)
	}
	if err == nil {
		err = r.dir.save(rec)
	}
	return errors.Join(err, repo.Release())
}

// freePorts returns ports of a range that are not taken and can be bound.
func freePorts(ctx context.Context, want PortRange, taken []int) (ports []int, err error) {
	for port := want.First; port <= want.Last && len(ports) < want.Each; port++ {
		if !slices.Contains(taken, port) && isFree(ctx, port) {
			ports = append(ports, port)
		}
	}
	if len(ports) < want.Each {
		return nil, fmt.Errorf("only %d of %d ports are free from %d to %d",
			len(ports), want.Each, want.First, want.Last)
	}
	return ports, nil
}

// isFree reports whether a TCP port can be bound on all addresses.
func isFree(ctx context.Context, port int) bool {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", ":"+strconv.Itoa(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
