package status

import (
	"cmp"
	"sync"

	"github.com/coppice-dev/coppice/internal/journal"
	"github.com/coppice-dev/coppice/supervisor"
)

// Endings follows the events of supervisors and knows how their children ended, for a
// picture of a tree that has ended and can no longer be asked. The zero value is ready.
type Endings struct {
	mu     sync.Mutex
	byPath map[string]*ending
}

// ending is the last exit of a child in the events.
type ending struct {
	incarnation uint64
	restarts    int
	exit        supervisor.Exit
	reason      supervisor.Reason
}

// Observe takes the next event.
func (s *Endings) Observe(e supervisor.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := e.Header()
	end := s.byPath[h.Path()]
	if end == nil {
		if s.byPath == nil {
			s.byPath = make(map[string]*ending)
		}
		end = &ending{}
		s.byPath[h.Path()] = end
	}
	end.incarnation = max(end.incarnation, h.Incarnation)
	var d supervisor.Decision
	switch e := e.(type) {
	case supervisor.ChildExited:
		end.exit, d = e.Exit, e.Decision
	case supervisor.ChildStartFailed:
		d = e.Decision
	case supervisor.ChildStopped:
		end.exit, d.Reason = e.Exit, e.Reason
	default:
		return
	}
	end.reason = d.Reason
	if d.Action == supervisor.RestartIt {
		end.restarts++
		end.reason = supervisor.NoReason // why it is to run is no reason why it does not
	}
}

// Complete shows a node as it ended. What the events have not told stays as it is.
func (s *Endings) Complete(n *Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.State, n.NextAt = supervisor.Stopped.String(), nil
	end := s.byPath[n.Path]
	if end == nil {
		return
	}
	if end.incarnation > n.Incarnation { // since the node was listed; with those restarts that its limit has seen
		seen := max(0, end.restarts-n.Restarts)
		if n.Incarnation == 0 && n.LimitCounts == supervisor.CountStarts.String() {
			seen++
		}
		n.InWindow = min(n.InWindow+seen, max(n.InWindow, n.LimitMax))
	}
	n.Incarnation, n.Restarts = max(n.Incarnation, end.incarnation), max(n.Restarts, end.restarts)
	n.LastExit, n.ExitKind, n.ExitError, n.Reason = "", "", "", ""
	if k := end.exit.Kind; k != supervisor.NoExit && k != supervisor.ShutDown {
		n.setLastExit(end.exit)
		n.LastExit = journal.ExitText(end.exit)
	}
	if end.reason != supervisor.ReasonShutdown { // of everything, as is plain to see
		n.Reason = end.reason.String()
	}
}

// KeepLimits gives nodes whose supervisor has ended the limit that they had before.
func KeepLimits(nodes, before []Node) {
	had := make(map[string]Node, len(before))
	for _, n := range before {
		had[n.Path] = n
	}
	for i := range nodes {
		n, was := &nodes[i], had[nodes[i].Path]
		if n.LimitMax < 0 && n.LimitOf == "" && n.State != supervisor.Running.String() {
			n.InWindow, n.Limit, n.LimitOf = was.InWindow, was.Limit, was.LimitOf
			n.LimitMax, n.LimitCounts = cmp.Or(was.LimitMax, n.LimitMax), was.LimitCounts
			n.LimitWindow, n.LimitAction = was.LimitWindow, was.LimitAction
		}
	}
}
