package tmux

import (
	"context"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/tmux/pane"
)

const (
	keeperTimeout = 6 * time.Second  // for an answer of a keeper, which may wait for its turn or for the disk
	quietTime     = time.Second      // without output, while a process has the terminal open
	flushTimeout  = 20 * time.Second // for the last output of an incarnation
)

// keeper connects to the keeper of the slot's log. The connection ends with ctx.
func (s *slot) keeper(ctx context.Context) (*pane.Conn, func(), error) {
	conn, err := pane.Dial(s.dir)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	return conn, func() { stop(); conn.Close() }, nil
}

// flush waits until all output of an incarnation is in the log, ends its keeper and returns the
// last lines. tmux may know the exit status of a process before it has read its last output;
// after that the pane is dead. It writes to the keeper when it has nothing else to do. So all
// output has arrived if no more comes after two steps: the keeper has read all there was, and
// then tmux has answered a question.
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
	quiet, pause := time.Now(), firstPause // time of the last output
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
	c.Receive() // waits for its end
	return last.Tail
}

// pipe returns the tmux command that starts a keeper for a pane.
func (s *slot) pipe(id, token string, incarnation uint64, l runtime.Log, onlyIfNone bool) []string {
	words := []string{"GOMAXPROCS=1", "exec"}
	for _, a := range append([]string{executable()}, pane.KeepArgs(s.dir, token, incarnation, l, s.r.expiry)...) {
		words = append(words, quote(a))
	}
	args := []string{"pipe-pane", "-t", id}
	if onlyIfNone {
		args = append(args, "-o")
	}
	return append(args, expandable(strings.Join(words, " ")))
}

// quote returns a word of a shell command.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// expandable escapes a shell command, so that tmux expands no formats, neither its own nor those
// of strftime.
func expandable(s string) string {
	return strings.NewReplacer("#", "##", "%", "%%").Replace(s)
}
