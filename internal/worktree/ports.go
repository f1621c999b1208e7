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
// into its record. They are free for others when the record is gone.
func (r *Repo) choosePorts(ctx context.Context, rec *record) error {
	want := r.options.Ports
	if len(rec.Ports) > 0 || want.Each == 0 {
		return nil
	}
	repo, err := r.lockRepo(ctx)
	if err != nil {
		return err
	}
	ports, err := r.freePorts(ctx, want)
	if err == nil {
		rec.Ports = ports
		err = r.save(rec)
	}
	return errors.Join(err, repo.release())
}

func (r *Repo) freePorts(ctx context.Context, want PortRange) (ports []int, err error) {
	names, err := r.names()
	if err != nil {
		return nil, err
	}
	var taken []int
	for _, name := range names {
		rec, err := r.load(name)
		if err != nil {
			return nil, fmt.Errorf("reading which ports are taken: %w", err)
		}
		if rec != nil {
			taken = append(taken, rec.Ports...)
		}
	}
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
