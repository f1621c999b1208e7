package far

import (
	"context"
	"encoding/json"
	"os"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/session"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// following is a call that is followed.
type following struct {
	place  string // see session.Call.Place
	shared atomic.Bool
	used   time.Time // guarded by Server.mu

	mu       sync.Mutex // held while files are read
	files    *session.Follower
	ends     bool // see Follower.EndsItself
	finished bool
	told     Told
	last     agentcli.Report
	report   json.RawMessage // last, encoded
	version  uint64          // of the report
}

// follow begins to follow a call.
func (s *Server) follow(d *described) *following {
	f := new(following)
	home := string(d.Home)
	c := session.Call{
		CLI: d.CLI, Dir: s.localize(home, string(d.Dir)), Began: d.Began, Session: d.Session, Homes: &s.homes,
		Shared: f.shared.Load, Each: func(e agentcli.Event) { f.told.Add(e) },
	}
	for _, kv := range d.Env {
		c.Env = append(c.Env, string(kv))
	}
	c.Env = session.Variables(proc.Move(c.Env, d.Inherited))
	f.ends = EndsItself("")
	if len(d.Stdin) > 0 {
		f.ends = EndsItself(s.localize(home, string(d.Stdin)))
	}
	f.place, f.files = c.Place(), session.Follow(c)
	return f
}

// EndsItself reports whether a command whose standard input is a file, or nothing, can get no more to do.
func EndsItself(stdin string) bool {
	info, err := os.Stat(stdin)
	return stdin == "" || err == nil && info.Mode().IsRegular()
}

// poll looks for what is new of a call. It returns nil if there are too many.
func (s *Server) poll(ctx context.Context, of string, p *poll, late time.Time) *polled {
	f := s.find(of, p.ID)
	switch {
	case f == nil && p.Call == nil:
		return &polled{ID: p.ID, Unknown: true}
	case f == nil:
		if f = s.add(of, p.ID, s.follow(p.Call)); f == nil {
			return nil
		}
	}
	if p.Shared {
		f.shared.Store(true)
	}
	busy := &polled{ID: p.ID, Busy: true}
	if !f.mu.TryLock() {
		return busy
	}
	out := p.Output.report()
	switch {
	case f.finished:
	case p.Finish:
		done := s.finish(f, out)
		if done == nil {
			return busy
		}
		timer := time.NewTimer(time.Until(late))
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
			return busy
		case <-ctx.Done():
			return busy
		}
		if !f.mu.TryLock() {
			return busy
		}
	default:
		f.files.Poll(out)
		f.note()
	}
	defer f.mu.Unlock()
	a := &polled{
		ID: p.ID, Have: f.version, Told: f.told, EndsItself: f.ends, Shared: f.shared.Load(), Finished: f.finished,
	}
	if p.Have != f.version {
		a.Report = f.report
	}
	return a
}

// finish reads the rest of a call, whose mu is held until that is done. It returns nil if the server is closed.
func (s *Server) finish(f *following, out agentcli.Report) (done <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		f.mu.Unlock()
		return nil
	}
	ended := make(chan struct{})
	s.running.Go(func() {
		defer close(ended)
		defer f.mu.Unlock()
		f.files.Finish(out)
		f.note()
		f.finished = true
	})
	return ended
}

// note takes note of what the files have now. f.mu is held.
func (f *following) note() {
	if r := f.files.Report(); f.version == 0 || !reflect.DeepEqual(r, f.last) {
		f.last, f.report = r, encodeReport(r)
		f.version++
	}
}
