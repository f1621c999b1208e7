package inproc

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
	"github.com/coppice-dev/coppice/supervisor"
)

// said is the output of a slot. It uses no files until there is some.
type said struct {
	file string

	mu     sync.Mutex
	writer *logfile.Writer // nil until there is output
	bounds runtime.Log
	run    uint64        // running incarnation
	grown  chan struct{} // closed when there is more output; nil if no reader waits
}

// begin is called for each new incarnation.
func (s *said) begin(incarnation uint64, l runtime.Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bounds, s.run = l, incarnation
	if s.writer != nil {
		s.writer.Limit(l)
		s.writer.Begin(incarnation)
	}
}

// end is called with the exit of an incarnation.
func (s *said) end(incarnation uint64, exit supervisor.Exit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writer == nil {
		if exit.Clean() {
			return
		}
		s.open()
	}
	s.writer.End(incarnation, exit.String(), !exit.Clean())
}

// open creates the writer. Needs mu.
func (s *said) open() {
	dir := filepath.Dir(s.file)
	_ = os.MkdirAll(dir, 0o700) // the writer tries again, and counts what is lost
	_ = slots.Restore(dir)
	s.writer = logfile.NewWriter(s.file)
	s.writer.Limit(s.bounds)
	s.writer.Begin(s.run)
}

// append adds a line. It drops a line that cannot be written.
func (s *said) append(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writer == nil {
		s.open()
	}
	s.writer.Append([]byte(text + "\n"))
	if s.grown != nil {
		close(s.grown)
		s.grown = nil
	}
}

func (s *said) activity() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writer == nil {
		return time.Time{}
	}
	return s.writer.Activity()
}

// more returns a channel that is closed when there is more to read than before the call.
func (s *said) more() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grown == nil {
		s.grown = make(chan struct{})
	}
	return s.grown
}

func (s *said) follow(ctx context.Context, over <-chan struct{}, grew func()) {
	for {
		more := s.more() // before reading, so that nothing is missed
		grew()
		select {
		case <-more:
		case <-over:
			grew()
			return
		case <-ctx.Done():
			return
		}
	}
}
