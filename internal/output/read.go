package output

import (
	"context"
	"fmt"
	"iter"
	"regexp"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
)

// Logs yields lines of agents' output, ordered by time. It reads log files only, so no line is
// missed or repeated when an agent restarts. A line says so if a node of a fleet does not answer.
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
	agents    map[string]*agentLog // by path
	order     []*agentLog
	nodes     map[string]*farNode // by name
	following bool                // the history is over

	ctx     context.Context // for what is read on other nodes
	cancel  context.CancelFunc
	running sync.WaitGroup // what is being read there

	wake  chan struct{} // holds a token while some are dirty
	mu    sync.Mutex
	dirty map[*logSource]bool // logs that may have more lines
}

func (s *Service) open(ctx context.Context, q Query) (*logReader, error) {
	r := &logReader{
		service: s, q: q, startedAt: time.Now(), agents: make(map[string]*agentLog), nodes: make(map[string]*farNode),
		wake: make(chan struct{}, 1), dirty: make(map[*logSource]bool),
	}
	var err error
	if q.Grep != "" {
		if r.grep, err = regexp.Compile(q.Grep); err != nil {
			return nil, fmt.Errorf("%w: parameter grep: %w", api.ErrInvalid, err)
		}
	}
	var removed []string
	if !q.Follow && !s.areAgents(q.Paths) { // to find them may ask other machines
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
	r.ctx, r.cancel = context.WithCancel(ctx)
	for _, path := range paths {
		if err := r.add(ctx, path, false); err != nil {
			r.close()
			return nil, err
		}
	}
	return r, nil
}

func (r *logReader) close() {
	r.cancel()
	r.running.Wait()
	for _, a := range r.order {
		for _, s := range a.sources {
			s.tail.Close()
		}
	}
}

// line returns the line to show for a line of a log; shown is false if there is none.
func (r *logReader) line(s *logSource, l logfile.Line) (i item, shown bool) {
	if r.grep != nil && (l.Between != nil || !r.grep.MatchString(plaintext.Line(l.Text))) {
		return i, false
	}
	i = item{
		line:   Line{Path: s.agent.path, Line: l.Text, Time: l.Time, Incarnation: l.Incarnation},
		source: s,
	}
	if b := l.Between; b != nil {
		i.line.Between = &Between{Ended: b.Ended, EndedAt: b.EndedAt, Exit: b.How, Began: b.Began}
	}
	if r.q.Follow {
		i.mark = s.tail.Mark().String()
	}
	if l.Time.After(s.last) {
		s.last = l.Time
	}
	i.at = s.last
	return i, true
}
