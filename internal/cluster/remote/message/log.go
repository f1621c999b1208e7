package message

import (
	"errors"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/logfile"
)

// LogStart is a logfile.Start that is sent.
type LogStart struct {
	After string    `json:"after,omitempty"` // a mark as text; empty: see Since
	Since time.Time `json:"since,omitzero"`
	Lines int       `json:"lines,omitempty"`
	Rest  bool      `json:"rest,omitempty"` // also a last line without its end
}

// LogPart is the part of a log that follows a LogStart.
type LogPart struct {
	Lines []LogLine `json:"lines,omitempty"`
	Mark  string    `json:"mark"`           // after the lines
	More  bool      `json:"more,omitempty"` // there may be more lines now
}

// LogLine is a logfile.Line that is sent, with the mark after it.
type LogLine struct {
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

// Start returns where to begin.
func (s *LogStart) Start() (logfile.Start, error) {
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

// NewLogLine describes a line, and the mark after it.
func NewLogLine(l logfile.Line, mark string) LogLine {
	return LogLine{
		Text: l.Text, Time: l.Time, Incarnation: l.Incarnation, Between: (*between)(l.Between), Mark: mark,
	}
}

// Line returns a line that was received, and the mark after it.
func (l *LogLine) Line() (logfile.Line, logfile.Mark, error) {
	m, err := logfile.ParseMark(l.Mark)
	if err != nil {
		err = fmt.Errorf("the answer is damaged: %w", err)
	}
	return logfile.Line{
		Text: l.Text, Time: l.Time, Incarnation: l.Incarnation, Between: (*logfile.Between)(l.Between),
	}, m, err
}
