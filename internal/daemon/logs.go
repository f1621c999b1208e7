package daemon

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// logsLook is how often a follower of logs looks for agents that are new, and into
// the logs of those that do not run. Agents that run tell when they write.
const logsLook = 200 * time.Millisecond

// Logs is part of api.Service. It reads files alone, so that nothing is missed or
// repeated over restarts of an agent.
func (c *Controller) Logs(ctx context.Context, q api.LogQuery) iter.Seq2[api.LogLine, error] {
	return func(yield func(api.LogLine, error) bool) {
		r, err := c.openLogs(ctx, q)
		if err != nil {
			yield(api.LogLine{}, err)
			return
		}
		defer r.close()
		if !r.history(ctx, yield) || !q.Follow || !yield(api.LogLine{Live: true}, nil) {
			return
		}
		r.follow(ctx, yield)
	}
}

// logReader reads the logs of agents as one.
type logReader struct {
	c       *Controller
	q       api.LogQuery
	grep    *regexp.Regexp // nil: every line
	began   time.Time
	sources map[string]*logSource // by path
	order   []*logSource

	kick  chan struct{} // some are dirty
	mu    sync.Mutex
	dirty map[*logSource]bool // there may be more
}

// logSource is the log of an agent.
type logSource struct {
	path   string
	file   string
	tail   *logfile.Tail
	screen []string        // instead of it
	last   time.Time       // of the lines passed on, which are in order
	heard  runtime.Session // tells when there is more; nil: none does
	quiet  chan struct{}   // closed when it no longer does
}

func (c *Controller) openLogs(ctx context.Context, q api.LogQuery) (*logReader, error) {
	r := &logReader{
		c: c, q: q, began: time.Now(), sources: make(map[string]*logSource),
		kick: make(chan struct{}, 1), dirty: make(map[*logSource]bool),
	}
	var err error
	if q.Grep != "" {
		if r.grep, err = regexp.Compile(q.Grep); err != nil {
			return nil, fmt.Errorf("%w: parameter grep: %w", api.ErrInvalid, err)
		}
	}
	paths, err := c.logged(q.Paths)
	if err != nil {
		return nil, err
	}
	if len(q.Paths) == 1 && len(paths) == 1 && paths[0] == c.resolvePath(q.Paths[0]) && !q.Follow {
		if err := c.neverStarted(paths[0]); err != nil {
			return nil, err
		}
	}
	for _, path := range paths {
		if err := r.add(ctx, path, false); err != nil {
			r.close()
			return nil, err
		}
	}
	return r, nil
}

func (r *logReader) close() {
	for _, s := range r.order {
		s.tail.Close()
	}
}

// add opens the log of an agent; that of one that came late, from when the reader began.
func (r *logReader) add(ctx context.Context, path string, late bool) error {
	s := &logSource{path: path}
	s.file, _ = r.c.logOf(path)
	var err error
	if after, ok := r.q.After[path]; ok {
		var m logfile.Mark
		if m, err = logfile.ParseMark(after); err != nil {
			return fmt.Errorf("%w: parameter after: %w", api.ErrInvalid, err)
		}
		s.tail, err = logfile.From(s.file, m)
	} else if late {
		s.tail, err = logfile.Since(s.file, r.began)
	} else if !r.q.Since.IsZero() {
		s.tail, err = logfile.Since(s.file, r.q.Since)
	} else if r.grep != nil {
		s.tail, err = logfile.From(s.file, logfile.Mark{})
	} else {
		s.tail, err = logfile.Last(s.file, r.q.Lines)
	}
	if err != nil {
		return fmt.Errorf("reading the log of %s: %w", path, err)
	}
	if r.grep == nil && r.q.Since.IsZero() && !r.q.Follow && r.q.Lines > 0 {
		if p, ok := r.c.live(path).(interface {
			Screen(context.Context, int) ([]string, bool)
		}); ok {
			s.screen, _ = p.Screen(ctx, r.q.Lines)
		}
	}
	r.sources[path] = s
	r.order = append(r.order, s)
	return nil
}

// line is what is shown of a line of a log.
func (r *logReader) line(s *logSource, l logfile.Line) (line api.LogLine, shown bool) {
	if r.grep != nil && (l.Between != nil || !r.grep.MatchString(proc.Plain(l.Text))) {
		return line, false
	}
	line = api.LogLine{Path: s.path, Line: l.Text, Time: l.Time, Incarnation: l.Incarnation}
	if b := l.Between; b != nil {
		line.Between = &api.Between{Ended: b.Ended, EndedAt: b.EndedAt, Exit: b.How, Began: b.Began}
	}
	if r.q.Follow {
		line.Position = s.tail.Mark().String()
	}
	if l.Time.After(s.last) {
		s.last = l.Time
	}
	return line, true
}

// past yields the lines of a source that are there.
func (r *logReader) past(ctx context.Context, s *logSource) iter.Seq2[api.LogLine, error] {
	return func(yield func(api.LogLine, error) bool) {
		if s.screen != nil {
			for _, text := range s.screen {
				if !yield(api.LogLine{Path: s.path, Line: text}, nil) {
					return
				}
			}
			return
		}
		going := true
		emit := func(l logfile.Line) {
			if line, shown := r.line(s, l); shown && going {
				going = yield(line, nil)
			}
		}
		var err error
		for more := true; more && going && err == nil; {
			more, err = s.tail.Some(emit)
		}
		if err == nil && going && !r.q.Follow {
			err = r.unfinished(ctx, s, emit)
		}
		if err != nil && going {
			yield(api.LogLine{}, fmt.Errorf("reading the log of %s: %w", s.path, err))
		}
	}
}

// lastOfPast is past without all but the last lines that are wanted.
func (r *logReader) lastOfPast(ctx context.Context, s *logSource) iter.Seq2[api.LogLine, error] {
	_, resumed := r.q.After[s.path]
	if r.q.Lines < 0 || resumed || r.q.Follow && r.grep == nil && r.q.Since.IsZero() {
		return r.past(ctx, s)
	}
	return func(yield func(api.LogLine, error) bool) {
		var last []api.LogLine
		first, lines := 0, 0
		for l, err := range r.past(ctx, s) {
			if err != nil {
				yield(l, err)
				return
			}
			last = append(last, l)
			for lines += isLine(l); lines > r.q.Lines; first++ {
				lines -= isLine(last[first])
			}
			if first > len(last)/2 { // now and then, so that it costs nothing
				last, first = append(last[:0], last[first:]...), 0
			}
		}
		for _, l := range last[first:] {
			if !yield(l, nil) {
				return
			}
		}
	}
}

func isLine(l api.LogLine) int {
	if l.Between != nil {
		return 0
	}
	return 1
}

// history yields what is there, in the order of time, and reports whether it is all.
func (r *logReader) history(ctx context.Context, yield func(api.LogLine, error) bool) bool {
	var heads logHeap
	defer func() {
		for _, h := range heads {
			h.stop()
		}
	}()
	for i, s := range r.order {
		h := &logHead{order: i}
		h.next, h.stop = iter.Pull2(r.lastOfPast(ctx, s))
		if h.pull() {
			heads = append(heads, h)
		}
	}
	heap.Init(&heads)
	for len(heads) > 0 {
		h := heads[0]
		if !yield(h.line, h.err) || h.err != nil {
			return false
		}
		if h.pull() {
			heap.Fix(&heads, 0)
		} else {
			heap.Pop(&heads)
		}
	}
	return true
}

// logHead is the next line of a source.
type logHead struct {
	next  func() (api.LogLine, error, bool)
	stop  func()
	line  api.LogLine
	err   error
	at    time.Time // never before that of the last one: a source is in order
	order int
}

func (p *logHead) pull() (ok bool) {
	if p.line, p.err, ok = p.next(); ok && p.line.Time.After(p.at) {
		p.at = p.line.Time
	}
	if !ok {
		p.stop()
	}
	return ok
}

type logHeap []*logHead

func (h logHeap) Len() int      { return len(h) }
func (h logHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *logHeap) Push(x any)   { *h = append(*h, x.(*logHead)) }
func (h logHeap) Less(i, j int) bool {
	return cmp.Or(h[i].at.Compare(h[j].at), cmp.Compare(h[i].order, h[j].order)) < 0
}
func (h *logHeap) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	*h = (*h)[:last]
	return p
}

// follow yields what comes, until ctx ends, the reader has enough, or the controller ends.
func (r *logReader) follow(ctx context.Context, yield func(api.LogLine, error) bool) {
	var hearing sync.WaitGroup
	defer hearing.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	look := time.NewTicker(logsLook)
	defer look.Stop()
	due := true
	for {
		if due {
			if err := r.look(ctx, &hearing); err != nil {
				yield(api.LogLine{}, err)
				return
			}
		}
		due = false
		over := false
		select {
		case <-r.kick:
		case <-look.C:
			due = true
		case <-r.c.ended:
			over = true
		case <-ctx.Done():
			return
		}
		for more := true; more; {
			var going bool
			if more, going = r.pass(yield); !going {
				return
			}
			if ctx.Err() != nil {
				return
			}
		}
		if over {
			return
		}
	}
}

// look opens the logs of agents that are new, hears from those that run when they
// write, and marks the others to be looked into.
func (r *logReader) look(ctx context.Context, hearing *sync.WaitGroup) error {
	paths, err := r.c.logged(r.q.Paths)
	if err != nil {
		paths = nil // what was asked for is gone; it may come back
	}
	for _, path := range paths {
		if r.sources[path] == nil {
			if err := r.add(ctx, path, true); err != nil {
				return err
			}
		}
	}
	for _, s := range r.order {
		if s.heard != nil {
			select {
			case <-s.quiet:
			default:
				continue
			}
		}
		r.mark(s)
		session := r.c.live(s.path)
		if session == nil || session == s.heard {
			continue
		}
		if err := r.moved(s); err != nil {
			return err
		}
		s.heard, s.quiet = session, make(chan struct{})
		quiet := s.quiet
		hearing.Go(func() {
			defer close(quiet)
			_ = session.Follow(ctx, func() { r.mark(s) }) // without it, it is looked into
		})
	}
	return nil
}

// moved opens the log of an agent that runs in another runtime than before.
func (r *logReader) moved(s *logSource) error {
	file, err := r.c.logOf(s.path)
	if err != nil || file == s.file {
		return nil
	}
	tail, err := logfile.Since(file, r.began)
	if err != nil {
		return fmt.Errorf("reading the log of %s: %w", s.path, err)
	}
	s.tail.Close()
	s.file, s.tail = file, tail
	return nil
}

// mark notes that there may be more in a log.
func (r *logReader) mark(s *logSource) {
	r.mu.Lock()
	r.dirty[s] = true
	r.mu.Unlock()
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// pass yields some of what has come, in the order of time, and reports whether there
// is more and whether the reader goes on.
func (r *logReader) pass(yield func(api.LogLine, error) bool) (more, going bool) {
	r.mu.Lock()
	dirty := slices.Collect(maps.Keys(r.dirty))
	clear(r.dirty)
	r.mu.Unlock()
	type item struct {
		line api.LogLine
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
			return false, yield(api.LogLine{}, fmt.Errorf("reading the log of %s: %w", s.path, err)) && false
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
