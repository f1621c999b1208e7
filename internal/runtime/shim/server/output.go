package server

import "github.com/coppice-dev/coppice/internal/runtime/proc"

// line is the sink of an agent with pipes.
func (s *server) line(line proc.Line) {
	b := append(s.buf[:0], line.Text...) // one line at a time
	if !line.More {
		b = append(b, '\n')
	}
	s.output(b)
	s.buf = b
	if cap(b) > 4<<10 {
		s.buf = nil
	}
}

// output is where all that the agent writes goes.
func (s *server) output(b []byte) {
	s.viewMu.Lock()
	defer s.viewMu.Unlock()
	s.log.Append(b)
	for v := range s.views {
		v.add(b)
	}
}
