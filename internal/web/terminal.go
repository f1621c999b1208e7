package web

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/web/screen"
)

const (
	maxTerminals  = 32                     // that are watched at a time
	lingerTime    = 10 * time.Second       // for which a terminal is watched on, when nobody looks at it any longer
	attachAgain   = time.Second            // after the end of an agent, or of the daemon
	firstDrawing  = 300 * time.Millisecond // for the screen of a page that is opened
	settledAfter  = 30 * time.Millisecond  // without output, a screen is complete
	drawnAtOnce   = 4 << 10                // bytes
	drawingCost   = 4                      // times as long as drawing has taken, nothing is read
	earlierOutput = api.MaxEarlier
)

// emptyScreen is the screen of an agent that has written nothing yet, or does not run.
const emptyScreen template.HTML = `<pre id="screen"></pre>`

// terminals shows the terminals of agents. Each is watched once, however many people look at it.
type terminals struct {
	ctx    context.Context
	client *api.Client

	mu      sync.Mutex
	watched map[string]*terminal // by the path of the agent
	running sync.WaitGroup
}

func newTerminals(ctx context.Context, c *api.Client) *terminals {
	return &terminals{ctx: ctx, client: c, watched: make(map[string]*terminal)}
}

// watch begins to watch the terminal of an agent, until release is called. It returns nil if too many are watched.
func (s *terminals) watch(path string) (t *terminal, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t = s.watched[path]
	if t == nil {
		if len(s.watched) >= maxTerminals || s.ctx.Err() != nil {
			return nil, func() {}
		}
		ctx, cancel := context.WithCancel(s.ctx)
		t = &terminal{path: path, ctx: ctx, cancel: cancel, changed: make(chan struct{})}
		s.watched[path] = t
		s.running.Go(func() { t.run(s.client) })
	}
	t.users++
	return t, sync.OnceFunc(func() {
		time.AfterFunc(lingerTime, func() { s.release(t) })
	})
}

// html returns the screen of an agent that is watched.
func (s *terminals) html(path string) template.HTML {
	s.mu.Lock()
	t := s.watched[path]
	s.mu.Unlock()
	if t == nil {
		return emptyScreen
	}
	html, _ := t.html()
	return html
}

// release ends the watch of a terminal at which nobody looks.
func (s *terminals) release(t *terminal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.users--; t.users == 0 {
		t.cancel()
		delete(s.watched, t.path)
	}
}

// close waits for the end of all watches. Their context must have ended.
func (s *terminals) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running.Wait()
}

// terminal is the terminal of an agent.
type terminal struct {
	path   string
	ctx    context.Context // of the watch
	cancel context.CancelFunc
	users  int // needs terminals.mu

	mu      sync.Mutex
	fresh   bool // the next output is that of another connection
	screen  *screen.Screen
	drawn   template.HTML // of the screen; empty if that has changed
	changed chan struct{} // closed and replaced at each change
}

// run watches the terminal from one incarnation to the next.
func (t *terminal) run(c *api.Client) {
	for t.ctx.Err() == nil {
		t.mu.Lock()
		t.fresh = true
		t.mu.Unlock()
		v := api.Viewer{Output: t, Earlier: earlierOutput, Resized: t.resize}
		err := api.Attach(t.ctx, c, t.path, v)
		pause := attachAgain
		if errors.Is(err, api.ErrNotFound) || errors.Is(err, api.ErrConflict) {
			pause *= 5 // a start takes longer than a restart
		}
		t.wait(pause)
	}
}

// wait waits for a time, or for the end of the watch.
func (t *terminal) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.ctx.Done():
	}
}

// change calls f with the screen, and tells those who look at it.
func (t *terminal) change(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f()
	t.drawn = ""
	close(t.changed)
	t.changed = make(chan struct{})
}

// resize begins with an empty screen of another size: the program draws it again.
func (t *terminal) resize(rows, cols uint16) {
	t.change(func() { t.screen, t.fresh = screen.New(int(rows), int(cols)), false })
}

// Write draws output. It takes part of the time only, however much there is. What comes too fast for that makes the
// connection end, and another one begins with the last output.
func (t *terminal) Write(p []byte) (int, error) {
	for part := range slices.Chunk(p, drawnAtOnce) {
		began := time.Now()
		t.change(func() {
			if t.fresh { // of an older shim, which does not tell the size
				t.screen, t.fresh = screen.New(screen.DefaultRows, screen.DefaultCols), false
			}
			t.screen.Write(part)
		})
		t.wait(drawingCost * time.Since(began))
	}
	return len(p), nil
}

// html returns the screen as it is now, and a channel that is closed when it has changed.
func (t *terminal) html() (template.HTML, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.screen == nil {
		return emptyScreen, t.changed
	}
	if t.drawn == "" {
		rows, cols := t.screen.Size()
		var b strings.Builder
		fmt.Fprintf(&b, `<pre id="screen" title="%d rows, %d columns">`, rows, cols)
		lines := t.screen.Lines()
		for _, line := range lines {
			b.WriteString(string(coloured(line)))
			b.WriteByte('\n')
		}
		b.WriteString(strings.Repeat("\n", rows-len(lines)))
		b.WriteString("</pre>")
		t.drawn = template.HTML(b.String()) //nolint:gosec // coloured escapes text
	}
	return t.drawn, t.changed
}

// first returns the screen when it is complete, or after a short time.
func (t *terminal) first(ctx context.Context) template.HTML {
	late := time.After(firstDrawing)
	for {
		html, changed := t.html()
		var settled <-chan time.Time
		if html != emptyScreen {
			settled = time.After(settledAfter)
		}
		select {
		case <-changed:
		case <-settled:
			return html
		case <-late:
			return html
		case <-ctx.Done():
			return html
		}
	}
}
