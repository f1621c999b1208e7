package remote

import (
	"context"
	"maps"
	"os"
	"slices"

	"github.com/coppice-dev/coppice/internal/cluster/remote/message"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
)

// Bounds of the part of a log in one answer. A single line may be longer than maxLogText.
const (
	maxLogText  = 64 << 10
	maxLogLines = 1000
)

// readLog reads a part of a log. Nothing is kept for the next one, which begins at the mark.
func (s *Server) readLog(ctx context.Context, req *message.Request) (*message.LogPart, error) {
	start, err := req.Log.Start()
	if err != nil {
		return nil, err
	}
	file, err := s.logOf(req.Slot())
	if err != nil {
		return nil, err
	}
	tail, err := logfile.Open(file, start)
	if err != nil {
		return nil, err
	}
	defer tail.Close()
	p, size, full := &message.LogPart{Mark: tail.Mark().String(), More: true}, 0, false
	emit := func(l logfile.Line) {
		if size += len(l.Text); full || len(p.Lines) > 0 && (size > maxLogText || len(p.Lines) == maxLogLines) {
			full = true // the next part begins with it
			return
		}
		p.Mark = tail.Mark().String()
		p.Lines = append(p.Lines, message.NewLogLine(l, p.Mark))
	}
	for p.More && len(p.Lines) == 0 { // the beginning of a long line may be all that was read
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if p.More, err = tail.Some(emit); err != nil {
			return nil, err
		}
	}
	if !p.More && !full && req.Log.Rest {
		tail.Rest(emit)
	}
	p.More = p.More || full
	return p, nil
}

// logOf returns the log of an agent: that of its slot in the runtime of the kind, or of another one if there is none.
func (s *Server) logOf(at message.Slot) (string, error) {
	r, err := s.runtime(at.Kind)
	if err != nil {
		return "", err
	}
	file, err := r.Log(at.Path)
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(file); err == nil {
		return file, nil
	}
	for _, kind := range slices.Sorted(maps.Keys(s.runtimes)) {
		other, err := s.runtimes[kind].Log(at.Path)
		if err != nil {
			continue
		}
		if _, err := os.Lstat(other); err == nil {
			return other, nil
		}
	}
	return file, nil
}
