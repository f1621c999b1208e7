package spec

import "time"

// DefaultDeadmanInterval is the time from one ping to the next.
const DefaultDeadmanInterval = time.Minute

// Deadman is the URL of a service that tells people when it is no longer pinged.
type Deadman struct {
	URL      string
	URLFrom  Secret // the URL, where that is a secret
	Interval time.Duration
}

// IsSet reports whether there is something to ping.
func (d Deadman) IsSet() bool { return d.URL != "" || d.URLFrom.IsSet() }
