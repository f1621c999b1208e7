package calls

import (
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/call"
	"github.com/coppice-dev/coppice/internal/agentcli/session"
	"github.com/coppice-dev/coppice/internal/calls/far"
	"github.com/coppice-dev/coppice/internal/spec"
)

// sessionFiles are the files of the session of a call, on this machine or on another node.
type sessionFiles struct {
	call        session.Call
	home, stdin string         // see far.Call
	inherited   []string       // likewise
	told        func(far.Told) // called with what the call tells; nil if nothing needs to know
	at          *far.Client    // of the other node; nil if it is this one
	far         *far.Follower  // once there is a call; nil on this machine
	ends        bool           // see far.EndsItself; of this machine
}

// newFiles describes the call of an agent that began at a time; zero if that is not known. Then no file can be that of
// its session.
func (m *Manager) newFiles(a *spec.Agent, env agent.Env, began time.Time, at *far.Client) *sessionFiles {
	s := &sessionFiles{
		call: session.Call{CLI: a.CommandLine(), Env: env.Vars, Dir: a.Dir, Began: began, Homes: &m.homes},
		home: a.Home, stdin: a.Stdin, inherited: env.Inherited, at: at,
	}
	if began.IsZero() {
		s.call.Env = nil
	}
	if at == nil {
		s.ends = far.EndsItself(a.Stdin)
	}
	return s
}

// newCall returns the call, which runs a command.
func (s *sessionFiles) newCall(argv []string) *call.Call {
	tell := s.told
	if tell == nil {
		tell = func(far.Told) {}
	}
	s.call.Each = func(e agentcli.Event) {
		var t far.Told
		t.Add(e)
		tell(t)
	}
	return call.NewWith(argv, s.call, func(c session.Call) call.Files {
		if s.at == nil {
			return session.Follow(c)
		}
		s.far = s.at.Follow(far.Call{
			CLI: c.CLI, Env: c.Env, Inherited: s.inherited, Dir: c.Dir, Home: s.home, Stdin: s.stdin,
			Began: c.Began, Session: c.Session, Told: tell,
		})
		return s.far
	})
}

func (s *sessionFiles) isFar() bool { return s.far != nil }

// endsItself reports whether an agent with pipes has to end when its command line has reported its end: nothing can
// give it more to do.
func (s *sessionFiles) endsItself() bool {
	if s.far != nil {
		return s.far.EndsItself()
	}
	return s.ends
}

// giveUp says that the node of the files is lost.
func (s *sessionFiles) giveUp() {
	if s.far != nil {
		s.far.GiveUp()
	}
}

// close ends the use of the files.
func (s *sessionFiles) close() {
	if s.far != nil {
		s.far.Close()
	}
}
