package tmux

import (
	"context"
	"errors"
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
	err := wire.ReadFile(filepath.Join(r.Dir, serverFile), &rec, &rec.Version)
	return rec.Server, err
}

// noteServer records the server of the project.
func (r *Runtime) noteServer(id proc.Identity) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, err := r.lastServer(); err == nil && last == id {
		return nil
	}
	return wire.WriteFile(filepath.Join(r.Dir, serverFile), &serverRecord{Version: wire.Version, Server: id})
}

// checkServer ensures that a start cannot create a second server next to one that runs but does
// not respond.
func (r *Runtime) checkServer(ctx context.Context, a answer) error {
	id, err := r.lastServer()
	if err != nil && !wire.IsMissing(err) {
		r.log.Warn("cannot read which tmux server runs", "error", err)
	}
	if err != nil || a.err == nil && a.server == id.PID {
		return nil
	}
	// The server may be about to end, because its last session was removed, or may have been
	// starting when it was asked.
	ectx, cancel := context.WithTimeout(ctx, exitTimeout)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		if a = r.panes(ctx, "0"); a.err == nil && a.server == id.PID {
			return nil
		}
		pctx, cancel := context.WithTimeout(ectx, pause)
		err := id.AwaitDeath(pctx)
		cancel()
		if err == nil {
			return nil
		}
		if ectx.Err() != nil {
			break
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if a.err == nil {
		a.err = fmt.Errorf("server %d responds instead", a.server)
	}
	return fmt.Errorf("%w: tmux server %d is running, but does not respond: %w", runtime.ErrUnknown, id.PID, a.err)
}

// addSession adds a session for which the server is watched.
func (r *Runtime) addSession(ses *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sessions[ses] = struct{}{}
	r.watch()
}

// Ready is part of runtime.Runtime.
func (r *Runtime) Ready(_ context.Context, path string, incarnation uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for ses := range r.sessions {
		if ses.rec.Path == path && ses.rec.Incarnation == incarnation {
			if ses.notify != nil {
				ses.notify.Ready()
			}
			return nil
		}
	}
	return fmt.Errorf("%w: incarnation %d of %s is not running", runtime.ErrStale, incarnation, path)
}

// watch starts watchServer unless it runs. Needs mu.
func (r *Runtime) watch() {
	if !r.watching {
		r.watching = r.Background(r.watchServer)
	}
}

func (r *Runtime) removeSession(ses *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sessions, ses)
}

// noteAnswer records the result of a call: the server responds, or it hangs.
func (r *Runtime) noteAnswer(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hangs = errors.Is(err, errHangs); r.hangs {
		r.watch() // nothing else notices when it responds again
	}
	switch {
	case err == nil && r.serverError != "":
		r.log.Info("tmux server responds again")
		r.serverError = ""
	case r.hangs && r.serverError == "":
		r.log.Warn("tmux server does not respond", "error", err)
		r.serverError = err.Error()
	}
}

// watchServer checks whether the server responds, periodically and after each failure. Without a
// response the state of all sessions is unknown.
func (r *Runtime) watchServer() {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-r.checkNow:
		case <-r.Ctx.Done():
			return
		}
		r.mu.Lock()
		idle := len(r.sessions) == 0 && !r.hangs
		r.mu.Unlock()
		if idle {
			continue
		}
		_, err := r.call(r.Ctx, nil, "display-message", "-p", "#{pid}")
		if r.Ctx.Err() != nil {
			return
		}
		r.mu.Lock()
		if err != nil {
			if r.serverError == "" {
				r.log.Warn("tmux server does not respond", "error", err)
			}
			r.serverError = err.Error()
		}
		var cut []proc.Identity
		for ses := range r.sessions {
			if proc.Observe(ses.rec.Server) == proc.Dead {
				cut = append(cut, ses.rec.Agent)
			}
		}
		r.mu.Unlock()
		// The system may not have done that: an agent without a server has no terminal, and its
		// end would not be noticed.
		for _, id := range cut {
			id.Signal(syscall.SIGKILL)
		}
		select { // a request of the call itself
		case <-r.checkNow:
		default:
		}
	}
}
