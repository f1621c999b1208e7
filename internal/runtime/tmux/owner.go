package tmux

import (
	"slices"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

var _ runtime.Owner = (*Runtime)(nil)

// Owner finds the agent of a process by the process in its pane. Other processes below the tmux
// server belong to an agent that cannot be named, because every agent can make the server run a
// command.
func (r *Runtime) Owner(l proc.Lineage) (path string, at int) {
	at = len(l.Processes)
	r.mu.Lock()
	defer r.mu.Unlock()
	for ses := range r.sessions {
		if i := slices.Index(l.Processes[:at], ses.rec.Agent); i >= 0 {
			path, at = ses.rec.Path, i
		}
		if i := slices.Index(l.Processes[:at], ses.rec.Server); i >= 0 {
			path, at = "", i
		}
	}
	if server, err := r.lastServer(); err == nil {
		if i := slices.Index(l.Processes[:at], server); i >= 0 {
			path, at = "", i
		}
	}
	if at == len(l.Processes) {
		return "", -1
	}
	return path, at
}
