package output

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
)

// Logs yields lines of agents' output, ordered by time. It reads log files only, so no line is
// missed or repeated when an agent restarts.
func (s *Service) Logs(ctx context.Context, q Query) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		r, err := s.open(ctx, q)
		if err != nil {
			yield(Line{}, err)
			return
		}
		defer r.close()
		if !r.history(ctx, yield) || !q.Follow || !yield(Line{Live: true}, nil) {
			return
		}
		r.follow(ctx, yield)
	}
}

// logReader merges the logs of agents.
type logReader struct {
	service   *Service
	q         Query
	grep      *regexp.Regexp // nil: every line
	startedAt time.Time
	sources   map[string]*logSource // by path
	order     []*logSource

	wake  chan struct{} // holds a token while some are dirty
	mu    sync.Mutex
	dirty map[*logSource]bool // logs that may have more lines
}

// logSource is the log of one agent.
type logSource struct {
	path       string
	file       string
	tail       *logfile.Tail
	screen     []string        // the screen of the terminal, shown instead of the log
	last       time.Time       // of the emitted lines, which are in order
	session    runtime.Session // the session that is followed; nil if none is
	unfollowed chan struct{}   // closed when it is no longer followed
}

func (s *Service) open(ctx context.Context, q Query) (*logReader, error) {
	r := &logReader{
		service: s, q: q, startedAt: time.Now(), sources: make(map[string]*logSource),
		wake: make(chan struct{}, 1), dirty: make(map[*logSource]bool),
	}
	var err error
	if q.Grep != "" {
		if r.grep, err = regexp.Compile(q.Grep); err != nil {
			return nil, fmt.Errorf("%w: parameter grep: %w", api.ErrInvalid, err)
		}
	}
	var removed []string
	if !q.Follow {
		removed = s.removed()
	}
	paths, err := s.agents(q.Paths, removed)
	if err != nil {
		return nil, err
	}
	if len(q.Paths) == 1 && len(paths) == 1 && paths[0] == s.opts.Tree.Full(q.Paths[0]) && !q.Follow {
		if err := s.neverStarted(paths[0]); err != nil {
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

// add opens the log of an agent. If the agent is late, lines from before the reader started are
// skipped.
func (r *logReader) add(ctx context.Context, path string, late bool) error {
	s := &logSource{path: path}
	s.file, _ = r.service.file(path)
	var err error
	after, resumed := r.q.After[path]
	switch {
	case resumed:
		m, markErr := logfile.ParseMark(after)
		if markErr != nil {
			return fmt.Errorf("%w: parameter after: %w", api.ErrInvalid, markErr)
		}
		s.tail, err = logfile.From(s.file, m)
	case late:
		s.tail, err = logfile.Since(s.file, r.startedAt)
	case !r.q.Since.IsZero():
		s.tail, err = logfile.Since(s.file, r.q.Since)
	case r.grep != nil:
		s.tail, err = logfile.From(s.file, logfile.Mark{})
	default:
		s.tail, err = logfile.Last(s.file, r.q.Lines)
	}
	if err != nil {
		return fmt.Errorf("reading the log of %s: %w", path, err)
	}
	if r.grep == nil && r.q.Since.IsZero() && !r.q.Follow && r.q.Lines > 0 {
		if p, ok := r.service.session(path).(interface {
			Screen(context.Context, int) ([]string, bool)
		}); ok {
			s.screen, _ = p.Screen(ctx, r.q.Lines)
		}
	}
	r.sources[path] = s
	r.order = append(r.order, s)
	return nil
}

// line returns the line to show for a line of a log; shown is false if there is none.
func (r *logReader) line(s *logSource, l logfile.Line) (line Line, shown bool) {
	if r.grep != nil && (l.Between != nil || !r.grep.MatchString(plaintext.Line(l.Text))) {
		return line, false
	}
	line = Line{Path: s.path, Line: l.Text, Time: l.Time, Incarnation: l.Incarnation}
	if b := l.Between; b != nil {
		line.Between = &Between{Ended: b.Ended, EndedAt: b.EndedAt, Exit: b.How, Began: b.Began}
	}
	if r.q.Follow {
		line.Position = s.tail.Mark().String()
	}
	if l.Time.After(s.last) {
		s.last = l.Time
	}
	return line, true
}

// stored yields the lines that are in a log now, and perhaps some of those that come meanwhile.
func (r *logReader) stored(ctx context.Context, s *logSource) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		if s.screen != nil {
			for _, text := range s.screen {
				if !yield(Line{Path: s.path, Line: text}, nil) {
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
		// A log may grow faster than it is read: it ends with what was there at the start.
		var err error
		more := true
		for more && going && err == nil && !s.last.After(r.startedAt) {
			more, err = s.tail.Some(emit)
		}
		if err == nil && going && !more && !r.q.Follow {
			err = r.unfinished(ctx, s, emit)
		}
		if err != nil && going {
			yield(Line{}, fmt.Errorf("reading the log of %s: %w", s.path, err))
		}
	}
}

// lastStored yields the last lines of stored, as many as the query asks for.
func (r *logReader) lastStored(ctx context.Context, s *logSource) iter.Seq2[Line, error] {
	_, resumed := r.q.After[s.path]
	if r.q.Lines < 0 || resumed || r.q.Follow && r.grep == nil && r.q.Since.IsZero() {
		return r.stored(ctx, s)
	}
	return func(yield func(Line, error) bool) {
		var last []Line
		first, lines := 0, 0
		for l, err := range r.stored(ctx, s) {
			if err != nil {
				yield(l, err)
				return
			}
			last = append(last, l)
			for lines += isLine(l); lines > r.q.Lines; first++ {
				lines -= isLine(last[first])
			}
			if first > len(last)/2 { // amortized
				last, first = slices.Delete(last, 0, first), 0
			}
		}
		for _, l := range last[first:] {
			if !yield(l, nil) {
				return
			}
		}
	}
}

func isLine(l Line) int {
	if l.Between != nil {
		return 0
	}
	return 1
}

// history yields the stored lines of all logs, ordered by time. It returns false if it ended early.
func (r *logReader) history(ctx context.Context, yield func(Line, error) bool) bool {
	var heads logHeap
	defer func() {
		for _, h := range heads {
			h.stop()
		}
	}()
	for i, s := range r.order {
		h := &logHead{order: i}
		h.next, h.stop = iter.Pull2(r.lastStored(ctx, s))
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

// logHead is the next line of a log.
type logHead struct {
	next  func() (Line, error, bool)
	stop  func()
	line  Line
	err   error
	at    time.Time // never decreases within a log
	order int
}

func (h *logHead) pull() (ok bool) {
	if h.line, h.err, ok = h.next(); !ok {
		h.stop()
	} else if h.line.Time.After(h.at) {
		h.at = h.line.Time
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
	head := (*h)[last]
	*h = (*h)[:last]
	return head
}
