package tmux

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// serverRecord is the content of serverFile.
type serverRecord struct {
	Version int           `json:"version"`
	Server  proc.Identity `json:"server"`
}

func (r *Runtime) lastServer() (proc.Identity, error) {
	var rec serverRecord
	err := wire.ReadFile(filepath.Join(r.dir, serverFile), &rec, &rec.Version)
	return rec.Server, err
}

// noteServer remembers which server the project has.
func (r *Runtime) noteServer(id proc.Identity) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, err := r.lastServer(); err == nil && last == id {
		return nil
	}
	return wire.WriteFile(filepath.Join(r.dir, serverFile), &serverRecord{Version: wire.Version, Server: id})
}

// admit makes sure that a start cannot make a second server beside one that
// lives and does not answer.
func (r *Runtime) admit(ctx context.Context, a answer) error {
	id, err := r.lastServer()
	if err != nil && !wire.IsMissing(err) {
		r.log.Warn("which tmux server runs is not known", "error", err)
	}
	if err != nil || a.err == nil && a.server == id.PID {
		return nil
	}
	// It may be about to end, because its last session was removed.
	ectx, cancel := context.WithTimeout(ctx, exitTime)
	defer cancel()
	if err := id.AwaitDeath(ectx); err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if a.err == nil {
		a.err = fmt.Errorf("server %d answers instead", a.server)
	}
	return fmt.Errorf("%w: tmux server %d lives, but does not answer: %w", runtime.ErrUnknown, id.PID, a.err)
}

// living adds a session to those that the server is watched for.
func (r *Runtime) living(ses *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sessions[ses] = struct{}{}
	if !r.watching && r.ctx.Err() == nil {
		r.watching = true
		r.wg.Go(r.watchServer)
	}
}

func (r *Runtime) ended(ses *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sessions, ses)
}

// heard notes that the server answers.
func (r *Runtime) heard() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.silent != "" {
		r.log.Info("tmux server answers again")
		r.silent = ""
	}
}

// watchServer looks whether the server answers, from time to time and after
// each failure. That the answer is missing makes all sessions unknown.
func (r *Runtime) watchServer() {
	tick := time.NewTicker(lookTime)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-r.poke:
		case <-r.ctx.Done():
			return
		}
		r.mu.Lock()
		idle := len(r.sessions) == 0
		r.mu.Unlock()
		if idle {
			continue
		}
		out := r.panes(r.ctx, "0") // only who it is
		if r.ctx.Err() != nil {
			return
		}
		r.mu.Lock()
		if out.err != nil {
			if r.silent == "" {
				r.log.Warn("tmux server does not answer", "error", out.err)
			}
			r.silent = out.err.Error()
		}
		var cut []proc.Identity
		for ses := range r.sessions {
			if proc.Observe(ses.rec.Server) == proc.Dead {
				cut = append(cut, ses.rec.Agent)
			}
		}
		r.mu.Unlock()
		// Where the system has not done it: an agent without a server has no
		// terminal and nobody to see its end.
		for _, id := range cut {
			id.Signal(syscall.SIGKILL)
		}
		select { // what panes itself has asked for
		case <-r.poke:
		default:
		}
	}
}
