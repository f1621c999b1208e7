package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

const (
	nudgeTime = 10 * time.Second // for all of a nudge
	nudgeEnv  = proc.EnvPrefix + "NUDGE"
	maxTyped  = 200 // bytes
	// enterPause is the time between a line and Enter.
	enterPause = 200 * time.Millisecond
)

var errTyping = errors.New("a person is attached and may be typing")

// nudge reminds a living agent of something, in the way that its specification
// names, and tells how that went. Where it names none nothing happens.
//
// The text ends up in a terminal, whose program takes it for a person's: it has
// to be made of words that are written here, and ids, never of what others say.
func (c *Controller) nudge(ctx context.Context, path, text string) {
	a, s := c.fleet().agents[path], c.live(path)
	if a == nil || s == nil {
		return
	}
	select {
	case <-s.Done():
		return
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, nudgeTime)
	defer cancel()
	n, text := a.Nudge, harmless(text)
	var how string
	var err error
	switch {
	case n.Type:
		how, err = "a line is typed", c.typeLine(ctx, path, s, text)
	case n.Signal != "":
		name, number, _ := spec.ParseSignal(n.Signal)
		how, err = "SIG"+name, s.Signal(ctx, number)
	case len(n.Command) > 0:
		how, err = "command", c.nudgeCommand(ctx, a, s.Observe(), text)
	default:
		return
	}
	e := event.Event{
		Type: event.AgentNudged, Path: path, Incarnation: s.Observe().Incarnation, Actor: "controller",
		Message: fmt.Sprintf("%s is nudged (%s): %s", path, how, text),
	}
	data := map[string]any{"how": how, "text": text}
	if err != nil {
		e.Message = fmt.Sprintf("%s cannot be nudged (%s): %v", path, how, err)
		data["error"] = err.Error()
	}
	c.log.Append(e.With(data))
}

// harmless leaves of a text what means nothing to any shell.
func harmless(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune(" .,:-_", r):
			return r
		}
		return -1
	}, text)
	return text[:min(len(text), maxTyped)]
}

// typing is who types into a terminal.
type typing struct {
	people int           // who may, at any moment
	line   chan struct{} // holds a token while a line is being typed
}

// typingOf is who types into the terminal of an agent. Needs mu.
func (c *Controller) typingOf(path string) *typing {
	if c.typing[path] == nil {
		c.typing[path] = &typing{line: make(chan struct{}, 1)}
	}
	return c.typing[path]
}

// typeLine types a line and Enter, but not into what a person is typing, nor
// into another line.
func (c *Controller) typeLine(ctx context.Context, path string, s runtime.Session, line string) error {
	c.mu.Lock()
	t := c.typingOf(path)
	c.mu.Unlock()
	select {
	case t.line <- struct{}{}:
		defer func() { <-t.line }()
	case <-ctx.Done():
		return ctx.Err()
	}
	c.mu.Lock()
	busy := t.people > 0
	c.mu.Unlock()
	if busy {
		return errTyping
	}
	if err := s.Write(ctx, []byte(line)); err != nil {
		return err
	}
	select { // what comes in one piece with its end is taken for a paste by some programs
	case <-time.After(enterPause):
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.Write(ctx, []byte("\r"))
}

// types notes that a person may type into the terminal of an agent from now on.
func (c *Controller) types(path string) (stop func()) {
	add := func(n int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.typingOf(path).people += n
	}
	add(1)
	return func() { add(-1) }
}

// nudgeCommand runs a command beside an agent, as if the agent had started it
// but without its token: what it says is not said by the agent.
func (c *Controller) nudgeCommand(ctx context.Context, a *spec.Agent, o runtime.Observation, text string) error {
	as, err := c.identity(a)
	if err != nil {
		return err
	}
	env, _ := as.environ(a, proc.Self{Agent: o.Path, Incarnation: o.Incarnation})
	p, err := proc.Start(proc.Command{
		Argv: a.Nudge.Command, Dir: a.Dir, Env: append(env, nudgeEnv+"="+text),
		NoNewPrivileges: a.NoNewPrivileges, User: as.user,
	}, proc.Output{})
	if err != nil {
		return err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Kill()
		<-p.Done()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("it has not ended within %v", nudgeTime)
		}
		return ctx.Err()
	}
	if exit := p.Exit(); exit.Kind != supervisor.Normal {
		if last := p.LastOutput(); len(last) > 0 {
			return fmt.Errorf("%v: %.200q", exit, proc.Plain(last[len(last)-1]))
		}
		return errors.New(exit.String())
	}
	return nil
}
