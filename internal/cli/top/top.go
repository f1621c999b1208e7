// Package top has the command top, and the live view of run. Both redraw the tree of a fleet on a
// terminal.
package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/look"
	climail "github.com/coppice-dev/coppice/internal/cli/mail"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/notify"
	"github.com/coppice-dev/coppice/internal/output"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/usage"
)

func New(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch the fleet live, and act on it",
		Long: `Watch the tree, the resources that each agent uses, and the output of one of them. MEM is the
resident memory of all processes of an agent; memory that processes share counts for
each. Stop and restart ask first.

  ` + strings.Join(helpLines(newTopKeys().all()), "\n  "),
		Args:              command.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			out, ok := s.Out.(*os.File)
			if _, tty := terminal.Size(s.Out); !ok || !tty || !term.IsTerminal(int(s.In.Fd())) {
				return command.Usagef("top needs a terminal; coppice ps lists what runs")
			}
			return r.Ask(func(ctx context.Context, c *api.Client) error { return top(ctx, c, s.In, out) })
		},
	}
	r.Flags(cmd)
	return cmd
}

// top shows the screen until the user quits or ctx ends.
func top(ctx context.Context, c *api.Client, in, out *os.File) error {
	under, cancel := context.WithCancel(ctx)
	f := &liveFleet{ctx: under, client: c}
	first, err := f.fetch() // without a daemon, fail before drawing anything
	if err != nil {
		cancel()
		return err
	}
	m := newTopModel(f, terminal.NewPaint(true), first)
	p := tea.NewProgram(m, tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	quit := context.AfterFunc(ctx, p.Quit)
	_, err = p.Run()
	quit()
	cancel()
	f.tail.stop()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// snapshot is the state of the daemon and the use of resources at one moment.
type snapshot struct {
	status status.Status
	nodes  []status.Node
	used   map[string]usage.Resources
}

// liveFleet implements topFleet with a daemon.
type liveFleet struct {
	ctx    context.Context
	client *api.Client
	tail   logFollower
}

// snapshotTimeout bounds the calls for one snapshot.
const snapshotTimeout = 10 * time.Second

func (f *liveFleet) fetch() (d snapshot, err error) {
	ctx, cancel := context.WithTimeout(f.ctx, snapshotTimeout)
	defer cancel()
	if d.status, err = status.Get.Call(ctx, f.client, api.None{}); err != nil {
		return d, err
	}
	if d.nodes, err = status.List.Call(ctx, f.client, status.ListRequest{}); err != nil {
		return d, err
	}
	all, err := usage.Show.Call(ctx, f.client, usage.ShowRequest{})
	if errors.Is(err, api.ErrDown) || errors.Is(err, api.ErrLost) {
		return d, err
	}
	d.used = make(map[string]usage.Resources, len(all)) // nothing of an older daemon
	for _, u := range all {
		d.used[u.Path] = u.Resources()
	}
	return d, nil
}

func (f *liveFleet) explain(path string) (status.Explanation, error) {
	ctx, cancel := context.WithTimeout(f.ctx, snapshotTimeout)
	defer cancel()
	return status.Explain.Call(ctx, f.client, status.ExplainRequest{Path: path})
}

func (f *liveFleet) inbox() (questions []question.Question, messages []mail.Message, err error) {
	ctx, cancel := context.WithTimeout(f.ctx, snapshotTimeout)
	defer cancel()
	if questions, err = question.List.Call(ctx, f.client, question.ListRequest{}); err != nil {
		return nil, nil, err
	}
	messages, err = mail.List.Call(ctx, f.client, mail.ListRequest{})
	return questions, messages, err
}

func (f *liveFleet) answer(q question.Question, text string) (string, error) {
	return climail.Answer(f.ctx, f.client, q, text)
}

func (f *liveFleet) read(id string) (mail.Message, error) {
	all, err := mail.Read.Call(f.ctx, f.client, mail.IDs{IDs: []string{id}})
	if err != nil || len(all) != 1 {
		return mail.Message{ID: id}, err
	}
	return all[0], nil
}

func (f *liveFleet) act(path string, action control.Action) error {
	_, err := control.Act.Call(f.ctx, f.client, control.ActRequest{Path: path, Action: action})
	return err
}

func (f *liveFleet) seen() {
	ctx, cancel := context.WithTimeout(f.ctx, snapshotTimeout)
	defer cancel()
	notify.Look.Call(ctx, f.client, api.None{}) // without it, somebody is notified of what he has seen
}

func (f *liveFleet) follow(path string) {
	f.tail.stop()
	f.tail = logFollower{}
	if path != "" {
		f.tail.follow(f.ctx, f.client, path)
	}
}

func (f *liveFleet) output() logTail {
	if f.tail.lines == nil {
		return logTail{}
	}
	o := f.tail.lines.output()
	if text := f.tail.partial.Load(); text != nil && *text != "" {
		o.lines = append(o.lines, *text)
	}
	return o
}

func (f *liveFleet) attach(path string, done func(error) tea.Msg) tea.Cmd {
	return tea.Exec(&attaching{fleet: f, path: path}, done)
}

// maxLogLines is the number of lines of output kept for scrolling.
const maxLogLines = 2000

// logFollower follows the output of one agent at a time.
type logFollower struct {
	lines   *lastLines
	partial *atomic.Pointer[string] // the unfinished last line
	cancel  context.CancelFunc
	ended   *sync.WaitGroup
}

// follow starts to follow the output of an agent.
func (t *logFollower) follow(ctx context.Context, c *api.Client, path string) {
	ctx, cancel := context.WithCancel(ctx)
	lines, partial, running := newLastLines(maxLogLines), &atomic.Pointer[string]{}, &sync.WaitGroup{}
	*t = logFollower{lines, partial, cancel, running}
	running.Go(func() {
		for ctx.Err() == nil {
			for text, err := range output.Unfinished(ctx, c, path) {
				if err != nil {
					break // also if the daemon is too old to have this route
				}
				text = displayLine(text)
				partial.Store(&text)
			}
			partial.Store(nil)
			waitForRetry(ctx)
		}
	})
	running.Go(func() {
		for ctx.Err() == nil {
			first := true
			q := output.Query{Paths: []string{path}, Lines: maxLogLines, Follow: true}
			for line, err := range output.Logs(ctx, c, q) {
				if err != nil {
					break
				}
				if line.Between != nil || line.Live {
					continue
				}
				if first {
					lines.clear()
				}
				first = false
				lines.add(displayLine(line.Line))
			}
			waitForRetry(ctx)
		}
	})
}

// waitForRetry waits before the next attempt: more output or another daemon may come.
func waitForRetry(ctx context.Context) {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
}

func (t *logFollower) stop() {
	if t.cancel != nil {
		t.cancel()
		t.ended.Wait()
	}
}

// attaching implements tea.ExecCommand: it attaches while Bubble Tea releases the terminal.
type attaching struct {
	fleet *liveFleet
	path  string
	in    *os.File
	out   io.Writer
	err   io.Writer
}

func (a *attaching) SetStdin(r io.Reader)  { a.in, _ = r.(*os.File) }
func (a *attaching) SetStdout(w io.Writer) { a.out = w }
func (a *attaching) SetStderr(w io.Writer) { a.err = w }

func (a *attaching) Run() error {
	if a.in == nil {
		return fmt.Errorf("attaching to %s: the input is not a terminal", a.path)
	}
	return look.Attach(a.fleet.ctx, a.fleet.client, a.path, false, a.in, a.out, a.err)
}
