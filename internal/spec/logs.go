package spec

import "cmp"

// Logs bounds the output that is kept of an agent. Zero is the default.
type Logs struct {
	MaxSize int64 // bytes of a file before it is rotated
	Keep    int   // rotated files
}

// Bounds of Logs.
const (
	MinLogSize  = 1 << 10
	MaxLogFiles = 100
)

// Or returns the bounds, and where they state none those of others.
func (l Logs) Or(others Logs) Logs {
	return Logs{cmp.Or(l.MaxSize, others.MaxSize), cmp.Or(l.Keep, others.Keep)}
}
