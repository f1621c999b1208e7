package proc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// Probe determines when a started process is ready. The set of types is closed: Log, TCP, HTTP,
// Exec and Notify.
type Probe interface {
	// arm prepares the probe for one start. It may add to the command and the output.
	arm(cmd *Command, out *Output) (waitFunc, error)
}

// waitFunc waits for the readiness of one incarnation. It returns nil when the process is ready,
// and the problem that it saw last when ctx is done.
type waitFunc func(ctx context.Context, p Subject) error

// Log succeeds when a line of stdout or stderr, made plain text, matches.
type Log struct{ Pattern *regexp.Regexp }

// TCP succeeds when Address (host:port) accepts a connection. TCP and HTTP fail with a
// ForeignError if the listener is known to belong to another process.
type TCP struct{ Address string }

// HTTP succeeds when a GET of URL is answered by 2xx. It follows no redirects and uses no proxy.
type HTTP struct{ URL string }

// Exec succeeds when a command ends with code 0. The command has the Dir, Env and privileges of
// the process.
type Exec struct{ Argv []string }

// Notify succeeds when the process, or a descendant, sends READY=1 to NOTIFY_SOCKET
// (sd_notify(3)). Messages of other processes are ignored where the system identifies the
// sender.
type Notify struct{ On *NotifySocket }

// Subject is the process whose readiness is awaited: a *Process, or one that another package
// started.
type Subject interface {
	PID() int
	Done() <-chan struct{}
	Exit() supervisor.Exit // valid after Done is closed
}

// Arm prepares a Probe for a start that another package carries out. It may add to the
// environment of cmd, and wraps the Line function of out. The returned function waits and fails
// as that of Begin does.
func Arm(ready Probe, cmd *Command, out *Output) (func(context.Context, Subject) error, error) {
	wait, err := ready.arm(cmd, out)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, p Subject) error { return awaitReady(ctx, p, wait) }, nil
}

// Times of probes that poll.
const (
	firstPause = 5 * time.Millisecond // between two tries, growing by half
	lastPause  = time.Second
	tryTimeout = 5 * time.Second // for one try
)

// errEnded is the cause that cancels a wait when the process ends.
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
		if errors.As(last, &foreign) { // this may be why it has ended
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
			pass(line) // first, so that the line comes before the news of readiness
		}
		select {
		case <-found: // one match is enough, and matching is expensive
		default:
			if l.Pattern.MatchString(plaintext.Line(line.Text)) {
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
		case <-found: // it was ready and ended right after that
			return nil
		default:
			return fmt.Errorf("no line of output matched %q", l.Pattern)
		}
	}, nil
}

func (t TCP) arm(cmd *Command, _ *Output) (waitFunc, error) {
	var d net.Dialer
	mark := cmd.Mark
	return polling(func(ctx context.Context, p Subject) error {
		c, err := d.DialContext(ctx, "tcp", t.Address)
		if err != nil {
			return err
		}
		defer c.Close()
		return checkOwner(c, p, mark)
	}), nil
}

func (h HTTP) arm(cmd *Command, _ *Output) (waitFunc, error) {
	req, err := http.NewRequest(http.MethodGet, h.URL, nil)
	if err != nil {
		return nil, fmt.Errorf("http probe: %w", err)
	}
	mark := cmd.Mark
	client := &http.Client{
		// One connection for each try: a connection to an old incarnation must not answer for
		// the new one.
		Transport:     &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return polling(func(ctx context.Context, p Subject) error {
		var foreign error
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
			foreign = checkOwner(got.Conn, p, mark) // while the process has the port; it may exit at any moment
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
		Argv: e.Argv, Dir: cmd.Dir, Env: cmd.Env, Reaper: cmd.Reaper, Mark: cmd.Mark,
		NoNewPrivileges: cmd.NoNewPrivileges, Paths: cmd.Paths.WithOwnSignals(false), User: cmd.User,
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
			p.EndsWithin(supervisor.KillGrace)
			return fmt.Errorf("%s has not ended within %v", e.Argv[0], tryTimeout)
		}
		if exit := p.Exit(); exit.Kind != supervisor.Normal {
			return fmt.Errorf("%s: %w%s", e.Argv[0], exit.Err, lastLine(p))
		}
		return nil
	}), nil
}

// lastLine returns the last line that a process wrote, as a suffix to an error.
func lastLine(p *Process) string {
	out := p.LastOutput()
	if len(out) == 0 {
		return ""
	}
	return fmt.Sprintf(": %.200q", plaintext.Line(out[len(out)-1]))
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

// Readiness returns the Probe for an agent's condition; nil if it has none. on is needed for the
// condition Notify only.
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

// Begin is Start with a readiness condition; a nil ready is met as soon as the program is
// loaded. The returned function must be called once. It waits until the process is ready.
//
// It fails if the process ends before that, with an error that wraps supervisor.ErrNotReady and
// the *ExitError. If its context is done first, the error wraps the cause and says what the
// probe saw last. Then the caller must stop the process.
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
