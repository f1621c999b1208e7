package logfile

import (
	"context"
	"time"
)

// Reader reads a log, on this machine or on another node. A Tail is one.
type Reader interface {
	// Some emits some of the lines that were added, and reports whether there may be more.
	Some(emit func(Line)) (more bool, err error)
	// Rest emits a last line without its end.
	Rest(emit func(Line))
	// Mark returns the position after the last line that was emitted.
	Mark() Mark
	Close()
}

// Start says where a Reader begins.
type Start struct {
	After *Mark     // after this position; nil: see Since
	Since time.Time // with what was written from then on; zero: see Lines
	Lines int       // with the last complete lines; negative: with the first one
}

// Open reads a log of this machine.
func Open(file string, s Start) (*Tail, error) {
	switch {
	case s.After != nil:
		return From(file, *s.After)
	case !s.Since.IsZero():
		return Since(file, s.Since)
	}
	return Last(file, s.Lines)
}

// NodeLog is the log of an agent on another node.
type NodeLog struct {
	Node    string
	Current bool // the last incarnation of the agent was started there
	// Open returns a Reader of it, which works until ctx ends. Errors are those of the Reader: they wrap
	// runtime.ErrUnknown while the node does not answer, which it is given at most 3 s for. The Reader goes on where
	// it was after each error.
	Open func(ctx context.Context, s Start) Reader
}
