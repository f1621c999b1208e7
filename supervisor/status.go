package supervisor

import "time"

// State is the current state of a child.
type State uint8

const (
	// Stopped: listed, not running, nothing pending (OTP's undefined).
	Stopped State = iota
	// Starting: asked to start, not ready yet.
	Starting
	// Running: started and not ended.
	Running
	// Stopping: asked to stop, not ended yet.
	Stopping
	// Restarting: waits for its backoff.
	Restarting
	// Waiting: waits for its turn while its group, or the supervisor, is started (OTP's undefined).
	Waiting
	// Quarantined: waits until the window of its limit has room.
	Quarantined
	// GivenUp: stays down until Reset.
	GivenUp
	// Paused: waits until Resume.
	Paused
	// Suspended: stopped by SuspendChild; stays down until RestartChild, even
	// when its group is restarted.
	Suspended
)

// ChildInfo is a snapshot of a child.
type ChildInfo struct {
	ID          string
	Type        ChildType
	State       State
	Incarnation uint64        // number of the last start; 0 before the first
	Restarts    int           // restarts in total
	ShortLived  int           // incarnations in a row that ended before Backoff.StableAfter, failed starts included
	InWindow    int           // current count of the limit that governs it
	Limit       Limit         // that limit
	StartedAt   time.Time     // of the running incarnation
	NextAt      time.Time     // of the next try; zero if none is scheduled
	RoomAt      time.Time     // the next start that a limit of starts allows; zero: at once
	LastExit    Exit          // of the incarnation before; NoExit if none has ended
	Reason      Reason        // of the last decision about it
	Arg         any           // of a SimpleOneForOne instance
	Sub         *Supervisor   // the nested supervisor, while it runs
	Uptime      time.Duration // of the running incarnation
}

// Counts is OTP's count_children with the number of abandoned incarnations.
type Counts struct {
	Specs       int // listed children; 1 for SimpleOneForOne
	Active      int // alive now
	Supervisors int // children of type supervisor, running or not
	Workers     int // the others, running or not
	Abandoned   int // incarnations cut off that have not ended yet
}
