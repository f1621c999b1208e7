package inproc

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
)

// said is what the agents of a slot say. It costs nothing on the disk while
// they are silent.
type said struct {
	dir  string
	file string

	mu     sync.Mutex
	writer *logfile.Writer // nil until something is said
	bounds runtime.Log
	grown  chan struct{} // closed when there is more; nil if nobody waits for it
}

func newSaid(dir string) *said { return &said{dir: dir, file: filepath.Join(dir, "output.log")} }

func (s *said) limit(l runtime.Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bounds = l
	if s.writer != nil {
		s.writer.Limit(l)
	}
}

// append adds a line. That it cannot be kept stops nobody.
func (s *said) append(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writer == nil {
		_ = os.MkdirAll(s.dir, 0o700) // the writer tries again, and counts what is lost
		s.writer = logfile.NewWriter(s.file)
		s.writer.Limit(s.bounds)
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

func (s *said) peek(n int) ([]string, error) {
	if n <= 0 {
		return nil, nil
	}
	return logfile.Peek(s.file, n)
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

func (s *said) follow(ctx context.Context, over <-chan struct{}, n int, f func(string)) error {
	t, lines, err := logfile.Open(s.file, n)
	if err != nil {
		return err
	}
	defer t.Close()
	for _, line := range lines {
		f(line)
	}
	for {
		more := s.more() // before reading: then nothing is missed
		last := false
		select {
		case <-over:
			last = true
		default:
		}
		if err := t.Next(f); err != nil || last {
			return err
		}
		select {
		case <-more:
		case <-over:
		case <-ctx.Done():
			return nil
		}
	}
}
