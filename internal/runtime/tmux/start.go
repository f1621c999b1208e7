package tmux

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/deadline"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/ready"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
	"github.com/coppice-dev/coppice/internal/runtime/tmux/pane"
	"github.com/coppice-dev/coppice/supervisor"
)

const (
	// paneTerm is the TERM of all agents: they talk to tmux, whatever terminal is attached.
	paneTerm = "screen-256color"
	// viewerTerm is what tmux assumes about the terminal of an attached person.
	viewerTerm = "xterm-256color"

	launchTimeout = 10 * time.Second // until the launcher becomes the agent
	launchTries   = 3                // of creating a pane while an old server is about to end
)

// executable returns the path of this program for tmux, even if a newer file has replaced it.
func executable() string { return "/proc/" + strconv.Itoa(os.Getpid()) + "/exe" }

// Start creates a session of a new incarnation, once its process exists.
func (s *slot) Start(ctx context.Context, l runtime.Launch) (slots.Session, error) {
	if l.Incarnation == 0 {
		return nil, errors.New("incarnations are numbered from 1")
	}
	if l.User != nil {
		return nil, fmt.Errorf("running as user %s: %w", l.User.Name, runtime.ErrUnsupported)
	}
	if l.Paths != nil { // agents reach the tmux server, which runs commands without limits
		return nil, fmt.Errorf("limiting where it may write: %w", runtime.ErrUnsupported)
	}
	dir, err := filepath.Abs(l.Dir)
	if err != nil {
		return nil, err
	}
	l.Dir = dir
	cmd := proc.Command{Argv: l.Argv, Dir: l.Dir, Env: s.environ(l.Env), NoNewPrivileges: l.NoNewPrivileges}
	if err := cmd.Check(); err != nil {
		return nil, err
	}
	until, err := deadline.Load(s.r.expiry)
	if err == nil {
		err = until.Check()
	}
	if err != nil {
		return nil, err
	}
	if err := s.r.check(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := s.r.both(ctx)
	defer cancel()
	if err := wire.MakeDir(s.dir); err != nil {
		return nil, err
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := slots.Restore(s.dir); err != nil {
		s.r.log.Warn("an earlier log is lost", "path", s.path, "error", err)
	}
	f, err := s.inspect(ctx, time.Now(), proc.Asked{})
	if err != nil {
		return nil, err
	}
	if f.rec != nil && f.end == nil {
		return nil, fmt.Errorf("%w: incarnation %d is running", runtime.ErrBusy, f.rec.Incarnation)
	}
	if f.rec != nil && l.Incarnation <= f.rec.Incarnation && !l.ResetNumbering {
		return nil, fmt.Errorf("%w: the last incarnation of the slot is %d", runtime.ErrStale, f.rec.Incarnation)
	}
	if err := s.r.checkServer(ctx, f.answer); err != nil {
		return nil, err
	}
	if l.ResetNumbering { // the following incarnations may have the number of one that has ended
		for _, name := range []string{wire.ExitFile, pane.ExpiredFile} {
			if err := os.Remove(filepath.Join(s.dir, name)); err != nil && !wire.IsMissing(err) {
				return nil, err
			}
		}
	}
	return s.launch(ctx, l, cmd, s.pane(f), until)
}

// environ adds to the environment of an agent what depends on where it runs.
func (s *slot) environ(env []string) []string {
	marker := s.marker()
	out := make([]string, 0, len(env)+2)
	for _, kv := range env {
		if !strings.HasPrefix(kv, "TERM=") && !strings.HasPrefix(kv, wire.MarkerEnv+"=") {
			out = append(out, kv)
		}
	}
	return append(out, "TERM="+paneTerm, marker)
}

// launch starts an incarnation, in the pane of the last one if that exists, unless a deadline comes before. Needs the
// lock.
func (s *slot) launch(
	ctx context.Context, l runtime.Launch, cmd proc.Command, old *paneInfo, until deadline.Deadline,
) (slots.Session, error) {
	news := make(chan struct{}, 1)
	var notify *ready.NotifySocket
	if l.Notify || l.Ready.Notify {
		var err error
		if notify, err = listenNotify("", news); err != nil {
			return nil, err
		}
		cmd.Env = notify.Environ(cmd.Env, l.Watchdog)
	}
	fail := func(err error) error {
		if notify != nil {
			notify.Close()
		}
		return err
	}
	condition, err := arm(l.Ready, &cmd, notify)
	if err != nil {
		return nil, fail(fmt.Errorf("%w: %w", proc.ErrCommand, err))
	}
	l.Env = cmd.Env
	packed, err := wire.NewLaunch(l)
	if err != nil {
		return nil, fail(fmt.Errorf("%w: %w", proc.ErrCommand, err))
	}
	rec := &record{
		Version: wire.Version, Path: s.path, Incarnation: l.Incarnation, SpecHash: l.SpecHash, Token: l.Token,
		Ready: condition.await == nil, Condition: l.Ready, Dir: []byte(l.Dir), NoNewPrivileges: l.NoNewPrivileges,
		Stop: int(l.StopSignal), Grace: l.Grace, Log: l.Log,
	}
	if notify != nil {
		rec.Socket = notify.Path()
	}
	g, err := s.listenForStart()
	if err != nil {
		return nil, fail(err)
	}
	defer g.close()
	lctx, cancel := context.WithTimeoutCause(ctx, launchTimeout, errors.New("program in the new pane does not respond"))
	defer cancel()
	abandon := func(err error) error {
		g.close() // now the launcher cannot become the agent
		if rec.Agent.PID != 0 {
			kill(rec.Agent)
		}
		if old == nil && rec.Pane != "" {
			s.r.tmux(context.WithoutCancel(ctx), nil, "kill-session", "-t", rec.Pane)
		}
		return fail(err)
	}
	if err := s.makePane(lctx, g, rec, l, old); err != nil {
		return nil, abandon(err)
	}
	launcher, err := g.await(lctx, rec.Agent.PID)
	if err != nil {
		return nil, abandon(err)
	}
	defer launcher.Close()
	rec.StartedAt = time.Now()
	rec.Begin = logfile.End(s.logFile())
	if err := rec.write(s.dir); err != nil {
		return nil, abandon(err)
	}
	s.describe(lctx, rec)
	// The keeper knows no earlier deadline than this one. So it ends what it finds in the record.
	if err := until.Check(); err != nil {
		return nil, s.failed(ctx, rec, abandon(err))
	}
	// From here on the agent may run, and the start is no longer given up.
	err = launcher.Send(&pane.Message{Type: pane.Go, Launch: packed, PID: rec.Server.PID})
	var m *pane.Message
	if err == nil {
		launcher.SetReadDeadline(time.Now().Add(launchTimeout))
		m, err = launcher.Receive()
	}
	ses := newSession(s, rec)
	ses.notify, ses.news = notify, news
	switch {
	case err == nil && m.Type == pane.Error:
		return nil, fail(s.failed(ctx, rec, m.Failure.Err()))
	case !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE):
		kill(rec.Agent)
		return nil, fail(fmt.Errorf("%w: the launcher does not respond: %w", runtime.ErrUnknown, err))
	}
	ses.live(condition)
	ses.listen(rec.Begin)
	return ses, nil
}

// failed records an incarnation that could not become its agent.
func (s *slot) failed(ctx context.Context, rec *record, err error) error {
	if err == nil {
		err = errors.New("the program could not be started")
	}
	if werr := rec.Agent.AwaitDeath(ctx); werr != nil {
		return fmt.Errorf("%w: %w; %w", runtime.ErrUnknown, err, werr)
	}
	s.recordEnd(rec, wire.NewEnd(supervisor.Exit{Kind: supervisor.Failure, Err: err}, time.Now()))
	return err
}

// makePane starts a launcher in a pane, and a keeper for its output.
func (s *slot) makePane(ctx context.Context, g *startListener, rec *record, l runtime.Launch, old *paneInfo) error {
	rows, cols := l.Rows, l.Cols
	if rows == 0 || cols == 0 {
		rows, cols = proc.DefaultSize.Rows, proc.DefaultSize.Cols
	}
	program := append([]string{executable()}, pane.LaunchArgs(s.dir, g.token)...)
	var last error
	// Do not interrupt a call of tmux: it may have created a pane, which abandon must know.
	whole := context.WithoutCancel(ctx)
	for range launchTries {
		var out string
		if old != nil {
			// Attached clients stay.
			args := append([]string{"respawn-pane", "-k", "-t", old.id, "--"}, program...)
			out, last = s.r.tmux(whole, nil, append(args, ";", "display-message", "-p", "-t", old.id,
				"#{pid} #{pane_id} #{pane_pid}")...)
		} else {
			out, last = s.r.tmux(whole, nil, append(s.newSession(rows, cols), program...)...)
		}
		if last == nil {
			last = rec.parsePane(out)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if last == nil {
			break
		}
		a := s.r.panes(ctx, "#{==:#{session_name},"+s.name+"}")
		if a.err != nil {
			if err := s.r.checkServer(ctx, a); err != nil { // it hangs, or is about to end
				return err
			}
		}
		old = a.session(s.name)
	}
	if last != nil {
		return last
	}
	if err := s.r.noteServer(rec.Server); err != nil {
		return err
	}
	if old != nil && l.Rows != 0 && old.attached == 0 && (old.width != int(cols) || old.height != int(rows)) {
		if err := s.resize(ctx, rec.Pane, rows, cols); err != nil {
			return err
		}
	}
	_, err := s.r.tmux(ctx, nil, s.pipe(rec.Pane, g.token, l.Incarnation, l.Log, false)...)
	return err
}

// newSession returns the commands that create the session of the slot, and the server if there
// is none. The options are those of the server: people may change them.
func (s *slot) newSession(rows, cols uint16) []string {
	return []string{
		"start-server",
		";", "set-option", "-g", "remain-on-exit", "on", // for the post-mortem
		";", "set-option", "-g", "update-environment", "",
		";", "set-option", "-g", "status", "off", // the agent has the whole window
		";", "set-option", "-g", "default-terminal", paneTerm,
		";", "set-option", "-g", "allow-rename", "off",
		";", "set-option", "-g", "set-titles", "off",
		";", "new-session", "-d", "-s", s.name, "-n", "agent", "-x", strconv.Itoa(int(cols)), "-y",
		strconv.Itoa(int(rows)),
		"-P", "-F", "#{pid} #{pane_id} #{pane_pid}", "--",
	}
}

// parsePane parses the output of tmux about a new pane.
func (rec *record) parsePane(out string) error {
	f := strings.Fields(out)
	if len(f) != 3 {
		return fmt.Errorf("unexpected new pane from tmux: %.200q", out)
	}
	server, err1 := strconv.Atoi(f[0])
	agent, err2 := strconv.Atoi(f[2])
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("unexpected new pane from tmux: %.200q: %w", out, err)
	}
	rec.Pane = f[1]
	var err error
	if rec.Server, err = proc.Identify(server); err != nil {
		return err
	}
	rec.Agent, err = proc.Identify(agent)
	return err
}

// describe sets the options of the session that identify its agent.
func (s *slot) describe(ctx context.Context, rec *record) {
	value, err := rec.option()
	if err == nil {
		_, err = s.r.tmux(ctx, nil,
			"set-option", "-t", rec.Pane, recordOption, value,
			";", "set-option", "-t", rec.Pane, pathOption,
			strings.TrimRight(plaintext.Line(fmt.Sprintf("%.200s", s.path)), ";"),
			";", "set-option", "-t", rec.Pane, incarnationOption, strconv.FormatUint(rec.Incarnation, 10))
	}
	if err != nil { // the state file has the data, too
		s.r.log.Warn("cannot set the options of a tmux session", "path", s.path, "error", err)
	}
}

// startListener accepts the launcher and the keeper of a start.
type startListener struct {
	l     *net.UnixListener
	token string
	file  string
}

func (s *slot) listenForStart() (*startListener, error) {
	d, err := private.OpenDir(s.dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	file := filepath.Join(s.dir, pane.StartSocket)
	os.Remove(file)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: pane.InDir(int(d.Fd()), pane.StartSocket), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("socket in %s: %w", s.dir, err)
	}
	l.SetUnlinkOnClose(false) // another file may have the name by then
	return &startListener{l: l, token: rand.Text(), file: file}, nil
}

func (g *startListener) close() {
	g.l.Close()
	os.Remove(g.file)
}

// await waits for both, and returns the connection of the launcher.
func (g *startListener) await(ctx context.Context, launcher int) (*pane.Conn, error) {
	stop := context.AfterFunc(ctx, func() { g.l.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var found *pane.Conn
	kept := false
	for found == nil || !kept {
		c, err := g.l.AcceptUnix()
		if err != nil {
			if found != nil {
				found.Close()
			}
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return nil, err
		}
		conn, err := pane.NewConn(c)
		if err != nil {
			continue
		}
		conn.SetReadDeadline(time.Now().Add(launchTimeout))
		m, err := conn.Receive()
		switch {
		case err == nil && m.Token == g.token && m.Type == pane.Launcher && m.PID == launcher && found == nil:
			found = conn
			continue
		case err == nil && m.Token == g.token && m.Type == pane.Keeper:
			kept = true
		}
		conn.Close()
	}
	return found, nil
}
