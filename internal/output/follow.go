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
	scan := true
	for {
		if scan {
			if err := r.scan(ctx, &followers); err != nil {
				yield(Line{}, err)
				return
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
		if r.sources[path] == nil {
			if err := r.add(ctx, path, true); err != nil {
				return err
			}
		}
	}
	for _, s := range r.order {
		if s.session != nil {
			select {
			case <-s.unfollowed:
			default:
				continue
			}
		}
		r.mark(s)
		session := r.service.session(s.path)
		if session == nil || session == s.session {
			continue
		}
		if err := r.reopen(s); err != nil {
			return err
		}
		s.session, s.unfollowed = session, make(chan struct{})
		unfollowed := s.unfollowed
		followers.Go(func() {
			defer close(unfollowed)
			_ = session.Follow(ctx, func() { r.mark(s) }) // on failure the log is scanned
		})
	}
	return nil
}

// reopen opens the log of an agent that has moved to another runtime.
func (r *logReader) reopen(s *logSource) error {
	file, err := r.service.file(s.path)
	if err != nil || file == s.file {
		return nil
	}
	tail, err := logfile.Since(file, r.startedAt)
	if err != nil {
		return fmt.Errorf("reading the log of %s: %w", s.path, err)
	}
	s.tail.Close()
	s.file, s.tail = file, tail
	return nil
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
	type item struct {
		line Line
		at   time.Time
	}
	var all []item
	for _, s := range dirty {
		left, err := s.tail.Some(func(l logfile.Line) {
			if line, shown := r.line(s, l); shown {
				all = append(all, item{line, s.last})
			}
		})
		if err != nil {
			yield(Line{}, fmt.Errorf("reading the log of %s: %w", s.path, err))
			return false, false
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
		if !yield(i.line, nil) {
			return false, false
		}
	}
	return more, true
}
