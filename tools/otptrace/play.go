package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

// session is the state of one running script.
type session struct {
	flags  flags
	static []childSpec
	sups   []*sup
	cur    *sup // the last one started, until its end has been reported
	wake   chan struct{}
	sent   func() // what the script has sent to a child, on its way
	// diverges reports that a call met a group between two attempts to restart it, and was
	// deliberately answered differently from Erlang. StartChild is deferred, and RestartChild is
	// refused, where Erlang starts the child immediately and undoes that in the next attempt.
	// TerminateChild of the failing child does not end the restart of its group.
	diverges bool // see result

	quietAt time.Time // when settle has last ended because it was quiet for long enough

	mu       sync.Mutex
	over     bool
	trace    []event
	attempts map[string]int    // starts by name
	last     map[string]*child // that were successful
	pids     int
}

// event is a line of the trace. Exits of one batch are simultaneous; Erlang orders them by pid.
type event struct {
	text  string
	batch string
	pid   int
}

// result is the result of a script.
type result struct {
	trace []string
	err   error
	// diverges says that a call met a group between two attempts to restart it,
	// and was answered in another way than by Erlang, on purpose: a start is
	// put off (StartChild) or refused (RestartChild), where Erlang does it
	// there and then and undoes it in the next attempt; and the end of the
	// child that fails (TerminateChild) is not the end of its group's restart.
	diverges bool
}

// play runs a script.
func play(lines script) result {
	w := &session{wake: make(chan struct{}, 1), attempts: map[string]int{}, last: map[string]*child{}}
	defer w.end()
	for _, l := range lines {
		w.print("> " + l.text)
		err := w.command(l)
		if err == nil {
			err = w.waitQuiet()
		}
		if err != nil {
			return result{err: fmt.Errorf("line %d: %q: %w", l.no, l.text, err)}
		}
	}
	return result{trace: w.lines(), diverges: w.diverges}
}

// end kills the supervisors that the script has left running.
func (w *session) end() {
	w.mu.Lock()
	w.over = true
	for _, s := range w.sups {
		for _, hold := range s.held {
			close(hold)
		}
	}
	w.mu.Unlock()
	for _, s := range w.sups {
		s.handle.Kill()
		<-s.handle.Done()
	}
}

// emit appends to the trace. Needs mu.
func (w *session) emit(e event) {
	if !w.over {
		w.trace = append(w.trace, e)
		w.signal()
	}
}

func (w *session) print(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.emit(event{text: text})
}

func (w *session) result(t term) { w.print("= " + t.String()) }

func (w *session) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *session) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.trace)
}

// lines returns the trace so far, with simultaneous exits in the order of Erlang.
func (w *session) lines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := 0; i < len(w.trace); {
		j := i + 1
		for w.trace[i].batch != "" && j < len(w.trace) && w.trace[j].batch == w.trace[i].batch {
			j++
		}
		slices.SortStableFunc(w.trace[i:j], func(a, b event) int { return a.pid - b.pid })
		i = j
	}
	lines := make([]string, len(w.trace))
	for i, e := range w.trace {
		lines[i] = e.text
	}
	return lines
}

// reportEnd prints the end of the current supervisor.
func (w *session) reportEnd() {
	if w.cur == nil {
		return
	}
	select {
	case <-w.cur.handle.Done():
		exit := w.cur.handle.Exit()
		var limit *supervisor.LimitError
		switch {
		case exit.Kind == supervisor.ShutDown, errors.As(exit.Err, &limit): // Erlang makes no difference
			w.print("# shutdown")
		default:
			w.print("# " + exit.String())
		}
		w.cur = nil
	default:
	}
}

func (w *session) command(l line) (err error) {
	switch l.word {
	case "sup":
		w.flags, err = parseFlags(l.args)
		return err
	case "child":
		spec, err := parseSpec(l.args, !w.flags.simple())
		w.static = append(w.static, spec)
		return err
	case "start":
		return w.start()
	case "exit":
		return w.exit(l.args[0], l.args[1])
	case "sleep":
		return w.sleep(l.args[0])
	case "stop":
		return w.stop()
	}
	if w.cur == nil {
		w.print("= no_supervisor")
		return nil
	}
	f, err := w.cur.prepare(l)
	if err != nil {
		return err
	}
	var callErr error
	err = w.call(func() {
		t, err := f()
		switch {
		case err == nil:
			w.result(t)
		case errors.Is(err, supervisor.ErrNoSupervisor):
			w.print("= no_supervisor")
		default:
			callErr = err
		}
	}, l.word == "add")
	return errors.Join(err, callErr)
}

func (w *session) start() error {
	spec, err := toSpec(w.flags, w.static)
	if r, ok := errors.AsType[refusal](err); ok {
		w.result(failed(r.term))
		return nil
	}
	s := &sup{
		session: w, startSpec: spec, simple: spec.Strategy == supervisor.SimpleOneForOne,
		calling: true, children: map[string]*child{}, held: map[string]chan struct{}{},
	}
	for i := range spec.Children {
		c := &spec.Children[i]
		c.Start = s.starter(w.static[i], c.Shutdown)
	}
	spec.OnEvent = func(supervisor.Event) { w.signal() }
	s.handle, err = supervisor.Start(context.Background(), spec)
	if e, ok := errors.AsType[*supervisor.StartError](err); ok {
		w.result(failed(atom("failed_to_start"), atom(scriptID(e.ID))))
		return nil
	} else if err != nil {
		return err
	}
	s.setCalling(false)
	w.sups = append(w.sups, s)
	w.cur = s
	w.print("= ok")
	return nil
}

func (w *session) exit(name, reason string) error {
	t, err := parseTerm(reason)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.last[name]
	if c == nil || c.dead {
		w.emit(event{text: "= not_running"})
		return nil
	}
	w.sent = func() { c.exit(t) }
	return nil
}

func (w *session) sleep(arg string) error {
	t, err := parseTerm(arg)
	if err != nil {
		return err
	}
	ms, ok := natural(t)
	if !ok {
		return fmt.Errorf("%v is no time in milliseconds", t)
	}
	end := time.Now().Add(multiply(ms, time.Millisecond))
	if _, err := w.deliverUntil(end); err != nil {
		return err
	}
	time.Sleep(time.Until(end))
	return nil
}

// stopTimeout is how long the runner in Erlang waits for a supervisor to end.
const stopTimeout = 20 * time.Second

func (w *session) stop() error {
	s := w.cur
	if s == nil {
		w.print("= no_supervisor")
		return nil
	}
	w.mu.Lock()
	s.inbox = append(s.inbox, message{deliver: s.handle.Stop})
	w.mu.Unlock()
	for end := time.Now().Add(stopTimeout); time.Now().Before(end); {
		select {
		case <-s.handle.Done():
			return nil
		default:
		}
		if _, err := w.deliverAll(); err != nil {
			return err
		}
		w.pause(poll)
	}
	w.print("= timeout")
	return nil
}
