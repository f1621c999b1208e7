package ready

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
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

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

// Times of probes that poll.
const (
	firstPause = 5 * time.Millisecond // between two tries, growing by half
	lastPause  = time.Second
	tryTimeout = 5 * time.Second // for one try
)

func (l Log) arm(_ *proc.Command, out *proc.Output) (waitFunc, error) {
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
	out.Line = func(line proc.Line) {
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

func (t TCP) arm(cmd *proc.Command, _ *proc.Output) (waitFunc, error) {
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

func (h HTTP) arm(cmd *proc.Command, _ *proc.Output) (waitFunc, error) {
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

func (e Exec) arm(cmd *proc.Command, _ *proc.Output) (waitFunc, error) {
	probe := proc.Command{
		Argv: e.Argv, Dir: cmd.Dir, Env: cmd.Env, Reaper: cmd.Reaper, Mark: cmd.Mark,
		NoNewPrivileges: cmd.NoNewPrivileges, Paths: cmd.Paths.WithOwnSignals(false), User: cmd.User,
	}
	if err := probe.Check(); err != nil {
		return nil, fmt.Errorf("exec probe: %w", err)
	}
	return polling(func(ctx context.Context, _ Subject) error {
		p, err := proc.Start(probe, proc.Output{})
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
func lastLine(p *proc.Process) string {
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
