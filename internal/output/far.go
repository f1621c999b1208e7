package output

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
)

const (
	// farInterval is the interval at which a follower looks into logs on other nodes: those of agents that do not run,
	// and those of which something is missing.
	farInterval = 2 * time.Second
	// maxFarPause bounds the pause between two looks into the log of an agent that does not run and writes nothing.
	maxFarPause = time.Minute
	// maxFarReads bounds the requests of a reader to one node at the same time.
	maxFarReads = 8
)

// farLog reads a log on another node, in the background: a node that does not answer delays no other log. Only what
// is fetched is emitted, except in the history, where Some waits.
type farLog struct {
	r      *logReader
	source *logSource
	node   *farNode
	reader logfile.Reader // used by one fetch at a time
	mark   logfile.Mark   // after the last line that was emitted

	told  bool          // the reader knows that something is missing
	pause time.Duration // until the next look; see maxFarPause
	due   time.Time

	mu       sync.Mutex
	fetching chan struct{} // closed when the fetch in progress is over; nil if none is
	fetched  *farPart      // waits to be emitted; nil if nothing does
	stale    bool          // the log may have grown since the last fetch began
}

// farPart is a part of a log.
type farPart struct {
	lines []logfile.Line
	marks []logfile.Mark // after each line
	more  bool
	err   error
}

// farNode is a node whose logs are read.
type farNode struct {
	reads chan struct{} // a semaphore

	mu  sync.Mutex
	err error // why it did not answer; nil if it did
	at  time.Time
}

func (r *logReader) newFarLog(s *logSource, n logfile.NodeLog, start logfile.Start) *farLog {
	node := r.nodes[n.Node]
	if node == nil {
		node = &farNode{reads: make(chan struct{}, maxFarReads)}
		r.nodes[n.Node] = node
	}
	f := &farLog{r: r, source: s, node: node, reader: n.Open(r.ctx, start), pause: farInterval}
	f.mark = f.reader.Mark()
	return f
}

// grew has the log read, now or after what is being read.
func (f *farLog) grew() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stale = true
	f.fetch()
}

// fetch begins to fetch a part, unless there is one. Needs mu.
func (f *farLog) fetch() {
	if f.fetching != nil || f.fetched != nil {
		return
	}
	over := make(chan struct{})
	f.fetching, f.stale = over, false
	f.r.running.Go(func() {
		p := f.node.read(f.r.ctx, f.reader)
		f.mu.Lock()
		f.fetched, f.fetching = p, nil
		f.mu.Unlock()
		close(over)
		f.r.mark(f.source)
	})
}

// read reads a part of a log, unless the node has just not answered.
func (n *farNode) read(ctx context.Context, reader logfile.Reader) *farPart {
	p := new(farPart)
	select {
	case n.reads <- struct{}{}:
		defer func() { <-n.reads }()
	case <-ctx.Done():
		p.err = context.Cause(ctx)
		return p
	}
	n.mu.Lock()
	if n.err != nil && time.Since(n.at) < farInterval/2 {
		p.err = n.err
	}
	n.mu.Unlock()
	if p.err != nil {
		return p
	}
	p.more, p.err = reader.Some(func(l logfile.Line) {
		p.lines, p.marks = append(p.lines, l), append(p.marks, reader.Mark())
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	n.err, n.at = nil, time.Now()
	if errors.Is(p.err, runtime.ErrUnknown) {
		n.err = p.err
	}
	return p
}

// take returns the part that was fetched; nil if there is none. The next one is fetched meanwhile.
func (f *farLog) take() *farPart {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fetched == nil && !f.r.following {
		f.fetch()
		over := f.fetching
		f.mu.Unlock()
		<-over
		f.mu.Lock()
	}
	p := f.fetched
	if f.fetched = nil; p != nil && p.err == nil && (p.more || f.stale) {
		f.fetch()
	}
	return p
}

// Some implements logfile.Reader.
func (f *farLog) Some(emit func(logfile.Line)) (more bool, err error) {
	p := f.take()
	if p == nil {
		return false, nil
	}
	for i, l := range p.lines {
		f.mark = p.marks[i]
		emit(l)
	}
	if len(p.lines) > 0 {
		f.pause, f.due = farInterval, time.Time{}
	}
	f.told = f.told && p.err != nil
	return p.more && !f.r.following, p.err // a follower is told when more is fetched
}

// Rest implements logfile.Reader. Nothing is fetched then, because all was read.
func (f *farLog) Rest(emit func(logfile.Line)) {
	f.reader.Rest(func(l logfile.Line) {
		f.mark = f.reader.Mark()
		emit(l)
	})
}

// Mark implements logfile.Reader.
func (f *farLog) Mark() logfile.Mark { return f.mark }

// Close implements logfile.Reader. Nothing is being fetched any longer.
func (f *farLog) Close() { f.reader.Close() }

// look has a follower look into the log, if it is time for that. followed means that it is told when the log grows.
func (f *farLog) look(now time.Time, followed bool) {
	switch {
	case f.told:
	case followed || !f.r.isCurrent(f.source) || now.Before(f.due):
		return
	default:
		f.due = now.Add(f.pause)
		f.pause = min(2*f.pause, maxFarPause)
	}
	f.grew()
}

// missing returns the line in place of what a node does not tell; ok is false if the reader knows it already.
func (f *farLog) missing(err error) (i item, ok bool) {
	if f.told {
		return i, false
	}
	f.told = true
	text := fmt.Sprintf("node %s does not answer: its part of the log is missing", f.source.node)
	if !errors.Is(err, runtime.ErrUnknown) {
		text = fmt.Sprintf("node %s cannot read its part of the log: %v", f.source.node, err)
	}
	at := time.Now()
	line := Line{Path: f.source.agent.path, Line: "[coppice: " + text + "]", Time: at}
	return item{line: line, source: f.source, at: at, note: true}, true
}
