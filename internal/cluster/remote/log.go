package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/logfile"
)

// Bounds of the part of a log in one answer. A single line may be longer than maxLogText.
const (
	maxLogText  = 64 << 10
	maxLogLines = 1000
)

// logStart is a logfile.Start that is sent.
type logStart struct {
	After string    `json:"after,omitempty"` // a mark as text; empty: see Since
	Since time.Time `json:"since,omitzero"`
	Lines int       `json:"lines,omitempty"`
	Rest  bool      `json:"rest,omitempty"` // also a last line without its end
}

// logPart is the part of a log that follows a logStart.
type logPart struct {
	Lines []logLine `json:"lines,omitempty"`
	Mark  string    `json:"mark"`           // after the lines
	More  bool      `json:"more,omitempty"` // there may be more lines now
}

// logLine is a logfile.Line that is sent, with the mark after it.
type logLine struct {
	Text        string    `json:"text,omitempty"`
	Time        time.Time `json:"time,omitzero"`
	Incarnation uint64    `json:"incarnation,omitempty"`
	Between     *between  `json:"between,omitempty"`
	Mark        string    `json:"mark"`
}

// between is a logfile.Between that is sent.
type between struct {
	Ended   uint64    `json:"ended,omitempty"`
	EndedAt time.Time `json:"ended_at,omitzero"`
	How     string    `json:"how,omitempty"`
	Began   uint64    `json:"began,omitempty"`
}

// start returns where to begin.
func (s *logStart) start() (logfile.Start, error) {
	if s == nil {
		return logfile.Start{}, errors.New("the request does not say where in the log to begin")
	}
	at := logfile.Start{Since: s.Since, Lines: s.Lines}
	if s.After != "" {
		m, err := logfile.ParseMark(s.After)
		if err != nil {
			return at, err
		}
		at.After = &m
	}
	return at, nil
}

// readLog reads a part of a log. Nothing is kept for the next one, which begins at the mark.
func (s *Server) readLog(ctx context.Context, req *request) (*logPart, error) {
	start, err := req.Log.start()
	if err != nil {
		return nil, err
	}
	file, err := s.logOf(req.slot())
	if err != nil {
		return nil, err
	}
	tail, err := logfile.Open(file, start)
	if err != nil {
		return nil, err
	}
	defer tail.Close()
	p, size, full := &logPart{Mark: tail.Mark().String(), More: true}, 0, false
	emit := func(l logfile.Line) {
		if size += len(l.Text); full || len(p.Lines) > 0 && (size > maxLogText || len(p.Lines) == maxLogLines) {
			full = true // the next part begins with it
			return
		}
		p.Mark = tail.Mark().String()
		p.Lines = append(p.Lines, logLine{l.Text, l.Time, l.Incarnation, (*between)(l.Between), p.Mark})
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
func (s *Server) logOf(at slot) (string, error) {
	r, err := s.runtime(at.kind)
	if err != nil {
		return "", err
	}
	file, err := r.Log(at.path)
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(file); err == nil {
		return file, nil
	}
	for _, kind := range slices.Sorted(maps.Keys(s.runtimes)) {
		other, err := s.runtimes[kind].Log(at.path)
		if err != nil {
			continue
		}
		if _, err := os.Lstat(other); err == nil {
			return other, nil
		}
	}
	return file, nil
}

// line returns a line that was received, and the mark after it.
func (l *logLine) line() (logfile.Line, logfile.Mark, error) {
	m, err := logfile.ParseMark(l.Mark)
	if err != nil {
		err = fmt.Errorf("the answer is damaged: %w", err)
	}
	return logfile.Line{
		Text: l.Text, Time: l.Time, Incarnation: l.Incarnation, Between: (*logfile.Between)(l.Between),
	}, m, err
}
