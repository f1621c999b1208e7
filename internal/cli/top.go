package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/coppice-dev/coppice/internal/api"
)

func newTop(s *streams) *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch the fleet, and act on it",
		Long: `Watch the tree with what each agent uses, together with all processes that
descend from it, and the output of the selected one. MEM is resident memory; memory that
processes share counts for each.

  j k ↑ ↓   select          s  stop      a  attach
  g G       first, last     S  start     q  quit
                            r  restart`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			out, ok := s.out.(*os.File)
			if _, tty := isTerminal(s.out); !ok || !tty || !term.IsTerminal(int(s.in.Fd())) {
				return usage(errors.New("top needs a terminal; coppice ps lists what runs"))
			}
			return r.ask(func(ctx context.Context, c *api.Client) error { return top(ctx, c, s.in, out) })
		},
	}
	r.flags(cmd)
	return cmd
}

// resources are what an agent uses.
type resources struct {
	cpu    float64 // cores
	memory uint64  // bytes
}

// top shows the screen until the person or ctx ends it.
func top(ctx context.Context, c *api.Client, in, out *os.File) error {
	meter := &meter{}
	first, err := look(ctx, c, meter) // no daemon is an answer, not a screen
	if err != nil {
		return err
	}
	under, cancel := context.WithCancel(ctx)
	m := &topModel{ctx: under, client: c, meter: meter, paint: newPaint(true), topData: first}
	p := tea.NewProgram(m, tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	quit := context.AfterFunc(ctx, p.Quit)
	_, err = p.Run()
	quit()
	cancel()
	m.tail.stop()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// topData is what the daemon and the machine say at a moment.
type topData struct {
	status api.Status
	nodes  []api.Node
	used   map[string]resources
}

// look asks for it.
func look(ctx context.Context, c *api.Client, m *meter) (d topData, err error) {
	if d.status, err = c.Status(ctx); err != nil {
		return d, err
	}
	if d.nodes, err = c.Nodes(ctx, ""); err != nil {
		return d, err
	}
	d.used = m.sample(d.nodes, d.status.Controller)
	return d, nil
}

// tailing follows the output of one agent at a time.
type tailing struct {
	path   string
	lines  *lastLines
	cancel context.CancelFunc
	ended  chan struct{}
}

// follow shows the output of another agent from now on.
func (t *tailing) follow(ctx context.Context, c *api.Client, path string) {
	t.stop()
	ctx, cancel := context.WithCancel(ctx)
	lines, ended := &lastLines{}, make(chan struct{})
	*t = tailing{path, lines, cancel, ended}
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			again := true
			for line, err := range c.Logs(ctx, path, keepLines, true) {
				if err != nil {
					break
				}
				if again {
					lines.clear()
				}
				again = false
				lines.add(shown(line))
			}
			// There is no more of it, or nobody answers; both may change.
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}()
}

func (t *tailing) stop() {
	if t.cancel != nil {
		t.cancel()
		<-t.ended
	}
}

// attaching is an attach as Bubble Tea runs programs in its place.
type attaching struct {
	model *topModel
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
		return fmt.Errorf("attaching to %s: the input is no terminal", a.path)
	}
	return attach(a.model.ctx, a.model.client, a.path, false, a.in, a.out, a.err)
}
