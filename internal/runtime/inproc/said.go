package inproc

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/supervisor"
)

// said is what the agents of a slot say. It costs nothing on the disk while
// they are silent.
type said struct {
	file string

	mu     sync.Mutex
	writer *logfile.Writer // nil until something is said
	bounds runtime.Log
	run    uint64        // incarnation that lives
	grown  chan struct{} // closed when there is more; nil if no reader waits
}

// begin is told of each incarnation.
func (s *said) begin(incarnation uint64, l runtime.Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bounds, s.run = l, incarnation
	if s.writer != nil {
		s.writer.Limit(l)
		s.writer.Begin(incarnation)
	}
}

// end is told how an incarnation has ended.
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

// open makes the writer. Needs mu.
func (s *said) open() {
	_ = os.MkdirAll(filepath.Dir(s.file), 0o700) // the writer tries again, and counts what is lost
	s.writer = logfile.NewWriter(s.file)
	s.writer.Limit(s.bounds)
	s.writer.Begin(s.run)
}

// append adds a line. A line that cannot be kept is dropped.
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

// more is closed when there is more to read than before it was called.
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
		more := s.more() // before reading: then nothing is missed
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
