package output

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
)

// agentLog is the output of one agent. It has a log on each node that has run the agent.
type agentLog struct {
	path    string
	sources []*logSource // that of this machine comes first
	resumed bool         // reading goes on after the marks of an earlier reader
	marks   marks        // after the last lines that were shown, or left out
	screen  []string     // the screen of the terminal, shown instead of the logs

	current    *logSource      // the log on the node where the agent was started last; needs logReader.mu
	session    runtime.Session // the session that is followed; nil if none is
	unfollowed chan struct{}   // closed when it is no longer followed
}

// logSource is the log of an agent on one node.
type logSource struct {
	agent *agentLog
	node  string // its name; empty without a fleet
	file  string // on this machine
	tail  logfile.Reader
	far   *farLog   // the tail, if it is on another node
	last  time.Time // of the emitted lines, which are in order
}

// nodeLogger is a runtime of several nodes.
type nodeLogger interface {
	// Logs returns the logs of an agent on other nodes, the newest last.
	Logs(path string) []logfile.NodeLog
}

// nodeLogs returns the logs of an agent on other nodes.
func (s *Service) nodeLogs(path string) []logfile.NodeLog {
	if r, ok := s.opts.Agents.Home(path).(nodeLogger); ok {
		return r.Logs(path)
	}
	runtimes := s.opts.Agents.Runtimes()
	for _, kind := range slices.Sorted(maps.Keys(runtimes)) {
		if r, ok := runtimes[kind].(nodeLogger); ok {
			if all := r.Logs(path); len(all) > 0 {
				return all
			}
		}
	}
	return nil
}

// currentLog returns the log on the node where an agent was started last, if that is another one.
func (s *Service) currentLog(path string) (n logfile.NodeLog, ok bool) {
	for _, n := range s.nodeLogs(path) {
		if n.Current {
			return n, true
		}
	}
	return n, false
}

// add opens the logs of an agent. If the agent is late, lines from before the reader started are
// skipped.
func (r *logReader) add(ctx context.Context, path string, late bool) error {
	a := &agentLog{path: path, marks: make(marks)}
	if after, resumed := r.q.After[path]; resumed {
		var err error
		if a.marks, err = parseMarks(after, r.service.opts.Node); err != nil {
			return err
		}
		a.resumed = true
	}
	here := &logSource{agent: a, node: r.service.opts.Node}
	here.file, _ = r.service.file(path)
	tail, err := logfile.Open(here.file, r.start(here, late))
	if err != nil {
		return fmt.Errorf("reading the log of %s: %w", path, err)
	}
	here.tail = tail
	a.sources = []*logSource{here}
	r.addNodes(a, late)
	if r.grep == nil && r.q.Since.IsZero() && !r.q.Follow && r.q.Lines > 0 {
		if p, ok := r.service.session(path).(interface {
			Screen(context.Context, int) ([]string, bool)
		}); ok {
			a.screen, _ = p.Screen(ctx, r.q.Lines)
		}
	}
	r.agents[path] = a
	r.order = append(r.order, a)
	return nil
}

// addNodes opens the logs of an agent on other nodes, unless they are open, and notes where the agent was started last.
func (r *logReader) addNodes(a *agentLog, late bool) {
	current := a.sources[0]
	for _, n := range r.service.nodeLogs(a.path) {
		i := slices.IndexFunc(a.sources, func(s *logSource) bool { return s.node == n.Node })
		if i < 0 {
			i = len(a.sources)
			s := &logSource{agent: a, node: n.Node}
			s.far = r.newFarLog(s, n, r.start(s, late))
			s.tail = s.far
			a.sources = append(a.sources, s)
			s.far.grew()
		}
		if n.Current {
			current = a.sources[i]
		}
	}
	r.mu.Lock()
	a.current = current
	r.mu.Unlock()
}

// start returns where to begin to read a log.
func (r *logReader) start(s *logSource, late bool) logfile.Start {
	if m, ok := s.agent.marks.after(s.node); ok {
		return logfile.Start{After: &m}
	}
	switch {
	case late:
		return logfile.Start{Since: r.startedAt}
	case !r.q.Since.IsZero():
		return logfile.Start{Since: r.q.Since}
	case r.grep != nil:
		return logfile.Start{Lines: -1}
	}
	return logfile.Start{Lines: r.q.Lines}
}

// isCurrent reports whether a log is that of the node where its agent was started last.
func (r *logReader) isCurrent(s *logSource) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return s.agent.current == s
}

// next emits all lines that were added to a log.
func next(t logfile.Reader, emit func(logfile.Line)) error {
	for more := true; more; {
		var err error
		if more, err = t.Some(emit); err != nil {
			return err
		}
	}
	return nil
}
