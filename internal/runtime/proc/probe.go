package proc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"regexp"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// Probe says when a started process is ready. The set of types is closed:
// Log, TCP, HTTP, Exec and Notify.
type Probe interface {
	// arm prepares the probe for one start. It may add to the command and the output.
	arm(cmd *Command, out *Output) (waitFunc, error)
}

// waitFunc waits for the readiness of one incarnation. It returns nil when the process
// is ready, and the problem that it saw last when ctx is done.
type waitFunc func(ctx context.Context, p Subject) error

// Log is ready when a line of stdout or stderr, made Plain, matches.
type Log struct{ Pattern *regexp.Regexp }

// TCP is ready when Address (host:port) accepts a connection. Where it is known
// that the listener is not of the process, TCP and HTTP are not: see ForeignError.
type TCP struct{ Address string }

// HTTP is ready when a GET of URL is answered by 2xx. Redirects are not
// followed, and no proxy is used.
type HTTP struct{ URL string }

// Exec is ready when a command ends with code 0. It runs in the Dir, with the
// Env and with the privileges of the process.
type Exec struct{ Argv []string }

// Notify is ready when the process, or a descendant, sends READY=1 to the
// socket that it was told of in NOTIFY_SOCKET (sd_notify(3)). Messages of
// strangers, where the system tells who the sender is, are ignored.
type Notify struct{ On *NotifySocket }

// Subject is the process whose readiness is waited for: a *Process, or one
// that something else has started.
type Subject interface {
	PID() int
	Done() <-chan struct{}
	Exit() supervisor.Exit // valid once Done is closed
}

// Arm prepares a Probe for a start that another package carries out. It may add to the
// environment of cmd, and wraps the Line function of out. The returned function waits
// and fails as that of Begin does.
func Arm(ready Probe, cmd *Command, out *Output) (func(context.Context, Subject) error, error) {
	wait, err := ready.arm(cmd, out)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, p Subject) error { return awaitReady(ctx, p, wait) }, nil
}

// Pace of the probes that have to ask.
const (
	firstPause = 5 * time.Millisecond // between two tries, growing by half
	lastPause  = time.Second
	tryTimeout = 5 * time.Second // of one try
)

// errEnded is the cause that ends a wait when the process does.
var errEnded = errors.New("process ended")

// awaitReady waits until the process is ready, until it ends, or until ctx is done.
func awaitReady(ctx context.Context, p Subject, wait waitFunc) error {
	wctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.Done():
			cancel(errEnded)
		case <-wctx.Done():
		}
	}()
	last := wait(wctx, p)
	switch {
	case last == nil:
		return nil
	case errors.Is(context.Cause(wctx), errEnded):
		e := p.Exit()
		err := e.Err
		if err == nil {
			err = errors.New(e.String())
		}
		var foreign *ForeignError
		if errors.As(last, &foreign) { // which may be why it has ended
			return fmt.Errorf("%w: %w; %w", supervisor.ErrNotReady, err, foreign)
		}
		return fmt.Errorf("%w: %w", supervisor.ErrNotReady, err)
	case errors.Is(context.Cause(ctx), supervisor.ErrStartTimeout):
		return fmt.Errorf("%w: %w", context.Cause(ctx), last)
	case ctx.Err() != nil:
		return fmt.Errorf("not ready: %w; %w", context.Cause(ctx), last)
	}
	return last
}

func (l Log) arm(_ *Command, out *Output) (waitFunc, error) {
	if l.Pattern == nil {
		return nil, errors.New("log probe without a pattern")
	}
	found := make(chan struct{})
	match := sync.OnceFunc(func() { close(found) })
	pass, wanted := out.Line, out.Wanted
	out.Wanted = func() bool {
		select {
		case <-found:
			return pass != nil && (wanted == nil || wanted())
		default:
			return true
		}
	}
	out.Line = func(line Line) {
		if pass != nil {
			pass(line) // first, so that the line comes before the news that it is ready
		}
		select {
		case <-found: // matching costs; one match is enough
		default:
			if l.Pattern.MatchString(Plain(line.Text)) {
				match()
			}
		}
	}
	return func(ctx context.Context, _ Subject) error {
		select {
		case <-found:
			return nil
		case <-ctx.Done():
		}
		select {
		case <-found: // it ended right after the line: it was ready, and then it ended
			return nil
		default:
			return fmt.Errorf("no line of output matched %q", l.Pattern)
		}
	}, nil
}

func (t TCP) arm(cmd *Command, _ *Output) (waitFunc, error) {
	var d net.Dialer
	reaper := reaperOf(cmd)
	return polling(func(ctx context.Context, p Subject) error {
		c, err := d.DialContext(ctx, "tcp", t.Address)
		if err != nil {
			return err
		}
		defer c.Close()
		return checkOwner(c, p, reaper)
	}), nil
}

// reaperOf is this process if it adopts the orphans of a command, else 0.
func reaperOf(cmd *Command) int {
	if cmd.Reaper == nil {
		return 0
	}
	return os.Getpid()
}

func (h HTTP) arm(cmd *Command, _ *Output) (waitFunc, error) {
	req, err := http.NewRequest(http.MethodGet, h.URL, nil)
	if err != nil {
		return nil, fmt.Errorf("http probe: %w", err)
	}
	reaper := reaperOf(cmd)
	client := &http.Client{
		// A connection for each try: the one to an old incarnation must not answer for the new.
		Transport:     &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return polling(func(ctx context.Context, p Subject) error {
		var foreign error
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
			foreign = checkOwner(got.Conn, p, reaper) // while it has the port: the next moment it may be gone
		}})
		resp, err := client.Do(req.WithContext(ctx))
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode < 200 || resp.StatusCode > 299 {
			return fmt.Errorf("%s answered %s", h.URL, resp.Status)
		}
		return foreign
	}), nil
}

func (e Exec) arm(cmd *Command, _ *Output) (waitFunc, error) {
	probe := Command{
		Argv: e.Argv, Dir: cmd.Dir, Env: cmd.Env, Reaper: cmd.Reaper, NoNewPrivileges: cmd.NoNewPrivileges,
		User: cmd.User,
	}
	if err := probe.Check(); err != nil {
		return nil, fmt.Errorf("exec probe: %w", err)
	}
	return polling(func(ctx context.Context, _ Subject) error {
		p, err := Start(probe, Output{})
		if err != nil {
			return err
		}
		select {
		case <-p.Done():
		case <-ctx.Done():
			p.Kill()
			p.endsWithin(supervisor.KillGrace)
			return fmt.Errorf("%s has not ended within %v", e.Argv[0], tryTimeout)
		}
		if exit := p.Exit(); exit.Kind != supervisor.Normal {
			return fmt.Errorf("%s: %w%s", e.Argv[0], exit.Err, lastLine(p))
		}
		return nil
	}), nil
}

// lastLine is the last line that a process wrote, as a suffix to an error.
func lastLine(p *Process) string {
	out := p.LastOutput()
	if len(out) == 0 {
		return ""
	}
	return fmt.Sprintf(": %.200q", Plain(out[len(out)-1]))
}

// polling returns a waitFunc that repeats a try until it succeeds.
func polling(try func(context.Context, Subject) error) waitFunc {
	return func(ctx context.Context, p Subject) error {
		last := errors.New("no try has completed")
		for pause := firstPause; ctx.Err() == nil; pause = min(pause*3/2, lastPause) {
			tctx, cancel := context.WithTimeout(ctx, tryTimeout)
			err := try(tctx, p)
			cancel()
			switch {
			case err == nil:
				return nil
			case ctx.Err() != nil: // the try was interrupted
				return last
			}
			last = err
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
		return last
	}
}

// Readiness is the Probe of an agent's condition; nil where it has none. on is
// where the agent speaks of itself, which only a condition to do so needs.
func Readiness(r spec.Ready, on *NotifySocket) (Probe, error) {
	switch {
	case r.Log != "":
		re, err := regexp.Compile(r.Log)
		if err != nil {
			return nil, fmt.Errorf("ready.log: %w", err)
		}
		return Log{Pattern: re}, nil
	case r.TCP != "":
		return TCP{Address: r.TCP}, nil
	case r.HTTP != "":
		return HTTP{URL: r.HTTP}, nil
	case len(r.Exec) > 0:
		return Exec{Argv: r.Exec}, nil
	case r.Notify:
		return Notify{On: on}, nil
	}
	return nil, nil
}

// Begin is Start with a readiness condition; a nil ready is satisfied by a
// program that could be loaded. The function that it returns must be called,
// once: it waits until ready says so, and fails when the process ends before
// that (an error that wraps supervisor.ErrNotReady and the *ExitError) or when
// its context is done first (an error that wraps its cause and says what the
// probe saw last). It leaves it to the caller to stop the process then.
func Begin(cmd Command, out Output, ready Probe) (*Process, func(context.Context) error, error) {
	await := func(context.Context, Subject) error { return nil }
	if ready != nil {
		var err error
		if await, err = Arm(ready, &cmd, &out); err != nil {
			return nil, nil, err
		}
	}
	p, err := Start(cmd, out)
	return p, func(ctx context.Context) error { return await(ctx, p) }, err
}
