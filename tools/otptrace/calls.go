package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

// prepare parses a line that is a call of the supervisor, and returns a function that makes the
// call. Its error is ErrNoSupervisor, or an error that Erlang does not have.
func (s *sup) prepare(l line) (func() (term, error), error) {
	by := func(f func(string) (term, error)) (func() (term, error), error) {
		return func() (term, error) { return f(l.args[0]) }, nil
	}
	switch l.word {
	case "which":
		return s.which, nil
	case "count":
		return s.counts, nil
	case "terminate":
		return by(s.terminate)
	case "restart":
		return by(s.restart)
	case "delete":
		return by(s.delete)
	case "spec":
		return by(s.spec)
	}
	if len(l.args) == 1 {
		return by(s.addInstance)
	}
	spec, err := parseSpec(l.args, !s.session.flags.simple())
	return func() (term, error) { return s.add(spec) }, err
}

func (s *sup) which() (term, error) {
	infos, err := s.handle.Children()
	var l list
	for _, info := range infos {
		id := atom(scriptID(info.ID))
		if s.simple {
			id = "undefined"
		}
		l.elems = append(l.elems, tuple{id, s.stateName(info), atom(info.Type.String())})
	}
	if s.simple {
		slices.SortFunc(l.elems, func(a, b term) int { return strings.Compare(a.String(), b.String()) })
	} else {
		slices.Reverse(l.elems)
	}
	return l, err
}

// stateName returns the state as which_children shows it. A child is Starting where Erlang is
// between two attempts.
func (s *sup) stateName(info supervisor.ChildInfo) atom {
	switch info.State {
	case supervisor.Running, supervisor.Stopping:
		return "running"
	case supervisor.Starting, supervisor.Restarting:
		return "restarting"
	}
	return "undefined"
}

func (s *sup) counts() (term, error) {
	n, err := s.handle.Count()
	pair := func(name string, n int) term { return tuple{atom(name), number(n)} }
	active := n.Active - s.heldCount() // which the library counts as starting
	return list{elems: []term{pair("specs", n.Specs), pair("active", active),
		pair("supervisors", n.Supervisors), pair("workers", n.Workers)}}, err
}

func (s *sup) add(spec childSpec) (term, error) {
	if s.simple { // Erlang passes the specification as arguments, which no start function takes
		return failed(atom("thrown")), s.alive()
	}
	cs, err := spec.toSpec(s.startSpec)
	if r, ok := errors.AsType[refusal](err); ok {
		return failed(r.term), s.alive()
	}
	cs.Start = s.starter(spec, cs.Shutdown)
	info, err := s.handle.StartChild(context.Background(), cs)
	if s.isHeld(cs.ID) && errors.Is(err, supervisor.ErrAlreadyStarted) {
		err = supervisor.ErrAlreadyPresent
	}
	return started(info, err)
}

func (s *sup) addInstance(name string) (term, error) {
	if !s.simple {
		return failed(atom("invalid_child_spec"), list{elems: []term{chars(name)}}), s.alive()
	}
	// Scripts may use a name twice, the library wants unique ones.
	id := fmt.Sprintf("%s#%d", libraryID(name), len(s.children))
	s.session.mu.Lock()
	s.children[id] = nil
	s.session.mu.Unlock()
	return started(s.handle.StartInstance(context.Background(), id, name))
}

func (s *sup) terminate(name string) (term, error) {
	if !s.simple {
		if s.isHeld(libraryID(name)) && s.waits() {
			s.session.diverges = true // Erlang forgets those that come after it in the group
		}
		return okOr(s.handle.TerminateChild(context.Background(), libraryID(name)))
	}
	c := s.instance(name)
	if c == nil { // an ID, not a pid
		return failed(atom("simple_one_for_one")), s.alive()
	}
	err := s.handle.TerminateChild(context.Background(), c.id)
	if errors.Is(err, supervisor.ErrNotFound) {
		return atom("ok"), nil // that pid is dead
	}
	return okOr(err)
}

// waits reports whether a child of a group waits for its turn.
func (s *sup) waits() bool {
	all, err := s.handle.Children()
	return err == nil && slices.ContainsFunc(all,
		func(c supervisor.ChildInfo) bool { return c.State == supervisor.Waiting })
}

func (s *sup) restart(name string) (term, error) {
	info, err := s.handle.RestartChild(context.Background(), libraryID(name))
	switch held := s.heldCount() > 0; {
	case s.isHeld(libraryID(name)) && errors.Is(err, supervisor.ErrRunning):
		err = supervisor.ErrRestarting
	case held && errors.Is(err, supervisor.ErrRestarting):
		s.session.diverges = true // Erlang starts it at once, and again with its group
	}
	return started(info, err)
}

func (s *sup) delete(name string) (term, error) {
	err := s.handle.DeleteChild(libraryID(name))
	if s.isHeld(libraryID(name)) && errors.Is(err, supervisor.ErrRunning) {
		err = supervisor.ErrRestarting
	}
	return okOr(err)
}

func (s *sup) spec(name string) (term, error) {
	id := libraryID(name)
	if c := s.instance(name); c != nil {
		id = c.id
	}
	cs, err := s.handle.ChildSpec(id)
	if s.simple && errors.Is(err, supervisor.ErrNotFound) {
		template := s.startSpec.Children[0]
		if s.instance(name) != nil || id == template.ID { // a dead pid, or the ID of the template itself
			cs, err = template, nil
		}
	}
	if err != nil {
		return failure(err)
	}
	id = cs.ID
	if s.simple {
		id = s.startSpec.Children[0].ID
	}
	var shutdown term
	switch cs.Shutdown {
	case supervisor.Infinity:
		shutdown = atom("infinity")
	case supervisor.BrutalKill:
		shutdown = atom("brutal_kill")
	default:
		shutdown = number(int(cs.Shutdown / time.Millisecond))
	}
	pair := func(name string, value term) term { return tuple{atom(name), value} }
	return list{elems: []term{pair("id", atom(scriptID(id))), pair("restart", atom(otpRestart{cs.Restart}.String())),
		pair("shutdown", shutdown),
		pair("significant", atom(fmt.Sprint(cs.Significant))), pair("type", atom(cs.Type.String()))}}, nil
}

// instance returns the last incarnation with that name if the supervisor knows its children by
// pid, and nil otherwise.
func (s *sup) instance(name string) *child {
	if !s.simple {
		return nil
	}
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	return s.session.last[name]
}

// alive returns an error if the supervisor has ended.
func (s *sup) alive() error {
	_, err := s.handle.Count()
	return err
}

// started returns the result of a call that starts a child.
func started(info supervisor.ChildInfo, err error) (term, error) {
	switch {
	case err != nil:
		return failure(err)
	case info.State == supervisor.Stopped: // its start was ignored
		return tuple{atom("ok"), atom("undefined")}, nil
	}
	return tuple{atom("ok"), atom("pid")}, nil
}

func okOr(err error) (term, error) {
	if err != nil {
		return failure(err)
	}
	return atom("ok"), nil
}

// failure returns the result of a call that failed.
func failure(err error) (term, error) {
	for _, known := range []struct {
		err    error
		reason term
	}{
		{supervisor.ErrAlreadyStarted, tuple{atom("already_started"), atom("pid")}},
		{supervisor.ErrAlreadyPresent, atom("already_present")},
		{supervisor.ErrRunning, atom("running")},
		{supervisor.ErrRestarting, atom("restarting")},
		{supervisor.ErrNotFound, atom("not_found")},
		{supervisor.ErrSimpleOneForOne, atom("simple_one_for_one")},
		{errFailed, atom("failed")},
		{errThrown, atom("thrown")},
	} {
		if errors.Is(err, known.err) {
			return failed(known.reason), nil
		}
	}
	return failed(atom("library"), chars(err.Error())), err
}
