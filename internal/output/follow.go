package output

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/logfile"
)

// scanInterval is the interval at which a follower looks for new agents, and into the logs of
// agents that do not run. Running agents signal when they write.
const scanInterval = 200 * time.Millisecond

// follow yields new lines until ctx ends, the consumer stops, or the controller ends.
func (r *logReader) follow(ctx context.Context, yield func(Line, error) bool) {
	var followers sync.WaitGroup
	defer followers.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	tick := time.NewTicker(scanInterval)
	defer tick.Stop()
	r.following = true
	for _, a := range r.order {
		for _, s := range a.sources {
			r.mark(s)
		}
	}
	scan := true
	var looked time.Time // into the logs of other nodes
	for {
		if scan {
			if err := r.scan(ctx, &followers); err != nil {
				yield(Line{}, err)
				return
			}
			if now := time.Now(); now.Sub(looked) >= farInterval {
				looked = now
				r.look(now)
			}
		}
		scan = false
		ended := false
		select {
		case <-r.wake:
		case <-tick.C:
			scan = true
		case <-r.service.opts.Ended:
			ended = true
		case <-ctx.Done():
			return
		}
		for more := true; more; {
			var reading bool
			if more, reading = r.pass(yield); !reading || ctx.Err() != nil {
				return
			}
		}
		if ended {
			return
		}
	}
}

// scan opens the logs of new agents, follows the sessions of running ones, and marks the other
// logs.
func (r *logReader) scan(ctx context.Context, followers *sync.WaitGroup) error {
	paths, err := r.service.agents(r.q.Paths, nil)
	if err != nil {
		paths = nil // the paths are gone, and may come back
	}
	for _, path := range paths {
		if r.agents[path] == nil {
			if err := r.add(ctx, path, true); err != nil {
				return err
			}
		}
	}
	for _, a := range r.order {
		if a.isFollowed() {
			continue
		}
		r.mark(a.sources[0])
		session := r.service.session(a.path)
		if session == nil || session == a.session {
			continue
		}
		if err := r.reopen(a.sources[0]); err != nil {
			return err
		}
		r.addNodes(a, true)
		a.session, a.unfollowed = session, make(chan struct{})
		unfollowed := a.unfollowed
		followers.Go(func() {
			defer close(unfollowed)
			_ = session.Follow(ctx, func() { r.grew(a) }) // on failure the log is scanned
		})
	}
	return nil
}

// isFollowed reports whether the agent's session signals when the agent writes.
func (a *agentLog) isFollowed() bool {
	if a.session == nil {
		return false
	}
	select {
	case <-a.unfollowed:
		return false
	default:
		return true
	}
}

// look looks into logs on other nodes, and for agents that have moved to one.
func (r *logReader) look(now time.Time) {
	for _, a := range r.order {
		r.addNodes(a, true)
		for _, s := range a.sources[1:] {
			s.far.look(now, a.isFollowed())
		}
	}
}

// reopen opens the log of an agent that has moved to another runtime of this node.
func (r *logReader) reopen(s *logSource) error {
	file, err := r.service.file(s.agent.path)
	if err != nil || file == s.file {
		return nil
	}
	tail, err := logfile.Since(file, r.startedAt)
	if err != nil {
		return fmt.Errorf("reading the log of %s: %w", s.agent.path, err)
	}
	s.tail.Close()
	s.file, s.tail = file, tail
	return nil
}

// grew notes that an agent that runs has written something.
func (r *logReader) grew(a *agentLog) {
	r.mu.Lock()
	s := a.current
	r.mu.Unlock()
	if s.far != nil {
		s.far.grew()
	} else {
		r.mark(s)
	}
}

// mark notes that there may be more lines in a log.
func (r *logReader) mark(s *logSource) {
	r.mu.Lock()
	r.dirty[s] = true
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// pass yields some of the new lines, ordered by time. It reports whether there are more, and
// whether the consumer goes on reading.
func (r *logReader) pass(yield func(Line, error) bool) (more, reading bool) {
	r.mu.Lock()
	dirty := slices.Collect(maps.Keys(r.dirty))
	clear(r.dirty)
	r.mu.Unlock()
	var all []item
	for _, s := range dirty {
		left, err := s.tail.Some(func(l logfile.Line) {
			if i, shown := r.line(s, l); shown {
				all = append(all, i)
			}
		})
		switch {
		case err == nil:
		case s.far == nil:
			yield(Line{}, fmt.Errorf("reading the log of %s: %w", s.agent.path, err))
			return false, false
		default:
			if i, ok := s.far.missing(err); ok {
				all = append(all, i)
			}
		}
		if left {
			r.mark(s)
			more = true
		}
	}
	slices.SortStableFunc(all, func(a, b item) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.line.Path, b.line.Path))
	})
	for _, i := range all {
		if !yield(i.pass(), nil) {
			return false, false
		}
	}
	return more, true
}
