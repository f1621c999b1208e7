package spec

import "time"

// Retention bounds the event log of a project. What is older, or more, is removed from
// its beginning. The zero value has the defaults.
type Retention struct {
	MaxAge   time.Duration // 30 days if 0, no bound if negative
	MaxBytes int64         // 256 MiB if 0
}

// Defaults and bounds of Retention.
const (
	DefaultEventAge   = 30 * 24 * time.Hour
	DefaultEventBytes = 256 << 20
	MinEventBytes     = 1 << 20
)

// Bounds returns the values in force; an age of 0 is no bound.
func (r Retention) Bounds() (maxAge time.Duration, maxBytes int64) {
	maxAge, maxBytes = r.MaxAge, r.MaxBytes
	if maxAge == 0 {
		maxAge = DefaultEventAge
	}
	if maxBytes == 0 {
		maxBytes = DefaultEventBytes
	}
	return max(maxAge, 0), maxBytes
}
