package health

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
)

const (
	nudgeTimeout = 10 * time.Second // for a whole nudge
	nudgeEnv     = proc.EnvPrefix + "NUDGE"
	maxNudge     = 200 // bytes
	// enterDelay is the time between a typed line and Enter. Some programs take a line that arrives
	// together with its end for a paste.
	enterDelay = 200 * time.Millisecond
)

var errTyping = errors.New("a person is attached and may be typing")

// Nudge reminds a running agent of something, in the way that its specification names, and logs the
// result. It does nothing if the specification names none.
//
// The text may be typed into a terminal, whose program takes it for the input of a person. It must
// consist of constant words and of ids, never of text from other sources.
func (m *Monitor) Nudge(ctx context.Context, path, text string) {
	a, i := m.opts.Fleet.Spec(path), m.running(path)
	if a == nil || i == nil {
		return
	}
	s := i.agent.Session()
	select {
	case <-s.Done():
		return
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, nudgeTimeout)
	defer cancel()
	n, text := a.Nudge, harmless(text)
	var how string
	var err error
	switch {
	case n.Type:
		how, err = "a line is typed", m.typeLine(ctx, path, s, text)
	case n.Signal != "":
		name, number, _ := spec.ParseSignal(n.Signal)
		how, err = "SIG"+name, s.Signal(ctx, number)
	case len(n.Command) > 0:
		how, err = "command", m.runNudge(ctx, a, s.Observe(), text)
	default:
		return
	}
	message := fmt.Sprintf("%s is nudged (%s): %s", path, how, text)
	data := map[string]any{"how": how, "text": text}
	if err != nil {
		message = fmt.Sprintf("%s cannot be nudged (%s): %v", path, how, err)
		data["error"] = err.Error()
	}
	m.opts.Append(m.event(event.AgentNudged, i.who, message).With(data))
}

// harmless keeps only the characters of a text that have no special meaning in any shell.
func harmless(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune(" .,:-_", r):
			return r
		}
		return -1
	}, text)
	return text[:min(len(text), maxNudge)]
}

// terminal coordinates input to the terminal of an agent.
type terminal struct {
	people int           // attached people, who may type at any moment; guarded by Monitor.mu
	line   chan struct{} // holds a token while a line is being typed
}

// terminal returns the terminal of an agent. Needs mu.
func (m *Monitor) terminal(path string) *terminal {
	if m.terminals[path] == nil {
		m.terminals[path] = &terminal{line: make(chan struct{}, 1)}
	}
	return m.terminals[path]
}

// typeLine types a line and Enter, unless a person may be typing. It waits for other lines.
func (m *Monitor) typeLine(ctx context.Context, path string, s runtime.Session, line string) error {
	m.mu.Lock()
	t := m.terminal(path)
	m.mu.Unlock()
	select {
	case t.line <- struct{}{}:
		defer func() { <-t.line }()
	case <-ctx.Done():
		return ctx.Err()
	}
	m.mu.Lock()
	busy := t.people > 0
	m.mu.Unlock()
	if busy {
		return errTyping
	}
	if err := s.Write(ctx, []byte(line)); err != nil {
		return err
	}
	select {
	case <-time.After(enterDelay):
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.Write(ctx, []byte("\r"))
}

// BeginTyping records that a person may type into the terminal of an agent, until stop is called.
func (m *Monitor) BeginTyping(path string) (stop func()) {
	add := func(n int) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.terminal(path).people += n
	}
	add(1)
	return func() { add(-1) }
}

// runNudge runs the command that nudges an agent. The command has no token, so it cannot act as the
// agent.
func (m *Monitor) runNudge(ctx context.Context, a *spec.Agent, o runtime.Observation, text string) error {
	last, err := m.opts.Fleet.Run(ctx, a, o, a.Nudge.Command, nudgeEnv+"="+text)
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("has not ended within %v", nudgeTimeout)
	case len(last) > 0 && ctx.Err() == nil:
		return fmt.Errorf("%w: %.200q", err, plaintext.Line(last[len(last)-1]))
	}
	return err
}
