package server

import "github.com/coppice-dev/coppice/internal/runtime/proc"

// sinks says where the output of an incarnation goes. A terminal is logged as
// it was written, with all that moves the cursor.
func (s *server) sinks(run *incarnation) proc.Output {
	before := s.drained
	tell := func(line proc.Line) {
		if l := s.listening.Load(); l != nil {
			if before != nil { // one life after the other, however slow who listens is
				<-before
				before = nil
			}
			l.line(run.number, line)
		}
	}
	if run.terminal {
		return proc.Output{Line: tell, Raw: func(_ proc.Stream, data []byte) { s.output(data) }}
	}
	var buf []byte // of one line at a time; the incarnation before may still have something to say
	return proc.Output{Line: func(line proc.Line) {
		b := append(buf[:0], line.Text...)
		if !line.More {
			b = append(b, '\n')
		}
		s.output(b)
		if buf = b; cap(b) > 4<<10 {
			buf = nil
		}
		tell(line)
	}}
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
