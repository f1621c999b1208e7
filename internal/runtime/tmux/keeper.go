package tmux

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/tmux/pane"
)

const (
	keeperTimeout = 6 * time.Second  // for an answer of a keeper, which may have to wait for its turn, or for the disk
	quietTime     = time.Second      // without output, while somebody still holds the terminal
	flushTimeout  = 20 * time.Second // that the last output of an incarnation may take
)

// keeper connects to the keeper of the slot's log. The connection ends with ctx.
func (s *slot) keeper(ctx context.Context) (*pane.Conn, func(), error) {
	d, err := private.OpenDir(s.dir)
	if err != nil {
		return nil, nil, err
	}
	defer d.Close()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: inDir(int(d.Fd()), pane.LogSocket), Net: "unix"})
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to the keeper of the log: %w", err)
	}
	conn, err := pane.NewConn(c)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	return conn, func() { stop(); conn.Close() }, nil
}

// inDir is a name for a socket that is short enough, wherever the directory is.
func inDir(fd int, name string) string { return "/proc/self/fd/" + strconv.Itoa(fd) + "/" + name }

// flush waits until all output of an incarnation is in the log, ends its
// keeper and returns the last lines. tmux knows the status of a process before
// it has read its last output: after that the pane is dead. It writes to the
// keeper when it has nothing else to do: when the keeper has read all there
// was, then tmux has answered a question, and still nothing more has come,
// that was it.
func (s *slot) flush(ctx context.Context, rec *record) (tail []string) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	c, leave, err := s.keeper(ctx)
	if err != nil {
		return nil
	}
	defer leave()
	ask := func() *pane.Message {
		c.SetDeadline(time.Now().Add(keeperTimeout))
		if c.Send(&pane.Message{Type: pane.Flush}) != nil {
			return nil
		}
		m, err := c.Receive()
		if err != nil || m.Type != pane.Flushed {
			return nil
		}
		return m
	}
	last := ask()
	quiet, pause := time.Now(), firstPause // since when nothing has come
	for {
		if last == nil {
			s.r.log.Warn("keeper of the log does not respond; the end of the output may be late", "path", s.path)
			return tail
		}
		tail = last.Tail
		a := s.r.panes(ctx, "#{==:#{pane_id},"+rec.Pane+"}")
		before := last.Received
		if last = ask(); last == nil {
			continue
		}
		if last.Received != before {
			quiet, pause = time.Now(), firstPause
			continue
		}
		p := a.pane(rec.Pane)
		if p == nil || p.dead || time.Since(quiet) > quietTime {
			break
		}
		time.Sleep(pause) //nolint:forbidigo // tmux does not say when it has passed on all output of a pane
		pause = min(2*pause, lastPause)
	}
	c.SetDeadline(time.Now().Add(keeperTimeout))
	c.Send(&pane.Message{Type: pane.Quit})
	c.Receive() // its end
	return last.Tail
}

// pipe is the command of tmux that starts a keeper for a pane.
func (s *slot) pipe(id, token string, incarnation uint64, l runtime.Log, onlyIfNone bool) []string {
	words := []string{"GOMAXPROCS=1", "exec"}
	for _, a := range append([]string{executable()}, pane.KeepArgs(s.dir, token, incarnation, l)...) {
		words = append(words, quote(a))
	}
	args := []string{"pipe-pane", "-t", id}
	if onlyIfNone {
		args = append(args, "-o")
	}
	return append(args, expandable(strings.Join(words, " ")))
}

// quote makes a word of a shell command.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// expandable keeps tmux from expanding its formats and those of strftime in
// what it gives to a shell, and from taking a semicolon at the end for its own.
func expandable(s string) string {
	return strings.NewReplacer("#", "##", "%", "%%").Replace(s)
}
