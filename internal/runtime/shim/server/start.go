package server

import (
	"errors"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/supervisor"
)

// start starts an incarnation for c. It returns when its process exists.
func (s *slot) start(c *conn, m *wire.Message) (*wire.State, error) {
	l, err := s.requestedLaunch(m)
	if err != nil {
		return nil, err
	}
	if l.Incarnation != m.Incarnation {
		return nil, fmt.Errorf("start of incarnation %d with a launch of %d", m.Incarnation, l.Incarnation)
	}
	if name, err := wire.DirName(l.Path); err != nil || name != s.name {
		return nil, fmt.Errorf("slot %s is not that of agent %.200q", s.dir, l.Path)
	}
	run := &incarnation{
		slot: s, number: l.Incarnation, grace: l.Grace, terminal: l.Terminal, input: l.Terminal || l.Input,
		started: make(chan struct{}), ended: make(chan struct{}),
	}
	if run.grace == 0 {
		run.grace = proc.DefaultGrace
	}
	if err := s.shim.watcher().Check(); err != nil {
		return nil, err
	}
	run.group = s.openGroup(m.Group)
	if err := s.claim(run, &l, m.Token); err != nil {
		return nil, err
	}
	if l.ResetNumbering {
		s.records.forget(s.dir)
	}
	s.output.log.Limit(l.Log)
	s.output.log.Begin(run.number)
	s.saveIntent()
	process, await, err := run.begin(&l)
	if err != nil {
		close(run.started)
		run.end(supervisor.Exit{Kind: supervisor.Failure, Err: err}, time.Now())
		s.outputEnded()
		return nil, err
	}
	id, _ := process.Identity() // zero if it has ended already
	run.process, s.drained = process, process.Drained()
	run.limitLifetime(l.Timeout)
	close(run.started)

	s.mu.Lock()
	s.launch = l
	s.state.Agent, s.state.StartedAt = id, time.Now()
	s.state.Ready = !hasCondition(l.Ready)
	if run.notify != nil {
		s.said.notice = run.notify.Said()
	}
	st := s.snapshot()
	if len(s.conns) > 1 { // c gets it in the answer
		s.broadcastExcept(c, &wire.Message{Type: wire.Status, Incarnation: st.Incarnation, State: st})
	}
	s.mu.Unlock()
	if run.notify != nil {
		run.notify.Listen(process.PID())
	}
	go s.unused.close()
	go run.watch(await, &l)
	s.shim.releaseMemory()
	return st, nil
}

// requestedLaunch returns the launch that a start asks for.
func (s *slot) requestedLaunch(m *wire.Message) (runtime.Launch, error) {
	switch {
	case m.Launch != nil:
		return m.Launch.Unpack(), nil
	case m.Again == 0:
		return runtime.Launch{}, errors.New("start without a launch")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.launch.Incarnation != m.Again {
		return runtime.Launch{}, fmt.Errorf("%w: the launch of incarnation %d was to be "+
			"repeated, the last one was of %d",
			runtime.ErrStale, m.Again, s.launch.Incarnation)
	}
	return wire.Again(s.launch, m.Incarnation, m.Token), nil
}

// claim makes run the incarnation of the slot.
func (s *slot) claim(run *incarnation, l *runtime.Launch, token string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closing:
		return wire.ErrClosing
	case s.run != nil:
		return fmt.Errorf("%w: incarnation %d is running", runtime.ErrBusy, s.run.number)
	case l.Incarnation <= s.state.Incarnation && !l.ResetNumbering:
		return fmt.Errorf("%w: cannot start incarnation %d, the last one of the slot is %d", runtime.ErrStale,
			l.Incarnation, s.state.Incarnation)
	}
	s.run = run
	s.said = said{}
	s.pumping++
	s.state = wire.State{
		Version: wire.Version, Path: l.Path, Incarnation: l.Incarnation, SpecHash: l.SpecHash,
		Token: token, Shim: s.shim.self, Group: run.group.name(), StartedAt: time.Now(),
		Grace: run.grace,
	}
	if s.linger != nil {
		s.linger.Stop()
	}
	return nil
}

// saveIntent saves what is about to be started. If this process is killed right after the fork, the
// next shim must know of the incarnation, or it would be started twice. The end of the previous
// incarnation must be recorded before.
func (s *slot) saveIntent() { s.records.await(s.saveState) }
