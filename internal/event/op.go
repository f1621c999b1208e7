package event

import (
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// Op returns the op that appends an event to the log, for a caller that writes to the same
// store something that the event tells of: either both are there or none. What
// Append promises of a store that takes no writes does not hold for it.
func (l *Log) Op(e Event) store.Op {
	e = e.normalise(time.Now())
	value, err := e.MarshalJSON()
	if err != nil || len(value) > store.MaxValue {
		e.Extra = nil
		if value, err = e.MarshalJSON(); err != nil {
			value = []byte("{}")
		}
	}
	return store.Op{Kind: store.Append, Key: l.prefix, Value: value}
}
