package look

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/muesli/cancelreader"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/status"
)

func NewAttach(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	var watch bool
	cmd := &cobra.Command{
		Use:   "attach PATH",
		Short: "Attach to an agent's terminal",
		Long: `Attach to the terminal of an agent. Ctrl-] or Ctrl-P Ctrl-Q detaches; the agent goes
on. Any number of people can watch an agent; one can type.`,
		Args: command.OnePath,
		RunE: func(_ *cobra.Command, args []string) error {
			return r.Ask(func(ctx context.Context, c *api.Client) error {
				return Attach(ctx, c, args[0], watch, s.In, s.Out, s.Err)
			})
		},
		ValidArgsFunction: r.CompletePath(false),
	}
	r.Flags(cmd)
	cmd.Flags().BoolVar(&watch, "watch", false, "only watch, do not type; Ctrl-C ends it")
	return cmd
}

// Attach connects a terminal to that of an agent until either side ends, and then restores it.
func Attach(ctx context.Context, c *api.Client, path string, watch bool, in *os.File, out, messages io.Writer) error {
	// An unknown path must not flash the screen.
	nodes, err := status.List.Call(ctx, c, status.ListRequest{Path: path})
	if err != nil {
		return err
	}
	if err := Attachable(nodes[0]); err != nil {
		return err
	}
	if !watch && !term.IsTerminal(int(in.Fd())) {
		return command.Usagef("the standard input is not a terminal; coppice attach --watch %s "+
			"only shows what %[1]s does", path)
	}
	screen := &terminal.Modes{W: out}
	defer screen.Restore()
	sizes, stop := terminalSizes(out)
	defer stop()
	if watch {
		return api.Attach(ctx, c, path, api.Viewer{Output: screen, Sizes: sizes})
	}
	if term.IsTerminal(int(in.Fd())) {
		before, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return fmt.Errorf("preparing the terminal: %w", err)
		}
		defer term.Restore(int(in.Fd()), before)
	}
	input, err := cancelreader.NewReader(in)
	if err != nil {
		return fmt.Errorf("preparing the terminal: %w", err)
	}
	typed := &detachReader{r: input, left: make(chan struct{})}
	fmt.Fprintf(messages, "attached to %s; Ctrl-] leaves it\r\n", plaintext.Line(path))
	err = api.Attach(ctx, c, path, api.Viewer{Input: typed, Output: screen, Sizes: sizes})
	// After this, the input must not be read here any longer; the caller may read it.
	if input.Cancel() {
		typed.close()
	}
	input.Close()
	screen.Restore()
	what := "has ended"
	select {
	case <-typed.left:
		what, err = "keeps running", nil
	default:
	}
	if err == nil {
		fmt.Fprintf(messages, "\r\n%s %s\r\n", plaintext.Line(path), what)
	}
	return err
}

// Attachable returns an error if an agent has no terminal to attach to, with the reason.
func Attachable(n status.Node) error {
	switch {
	case n.Kind != "agent":
		return fmt.Errorf("%s is a %s and has no terminal; coppice attach takes an agent: %w", n.Path, n.Kind,
			api.ErrInvalid)
	case !n.Terminal:
		return fmt.Errorf("%w: %s has no terminal; give it one with terminal = true in its table, or follow its "+
			"output with: coppice logs -f %[2]s", api.ErrConflict, n.Path)
	case n.State != "running" && n.State != "starting" && n.State != "stopping":
		return fmt.Errorf("%w: %s is %s; see: coppice explain %[2]s", api.ErrConflict, n.Path, n.State)
	}
	return nil
}

// terminalSizes sends the size of the terminal w, now and whenever it changes.
func terminalSizes(w io.Writer) (sizes <-chan [2]uint16, stop func()) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil, func() {}
	}
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	all, over := make(chan [2]uint16), make(chan struct{})
	go func() {
		for {
			if columns, rows, err := term.GetSize(int(f.Fd())); err == nil {
				select {
				case all <- [2]uint16{uint16(rows), uint16(columns)}:
				case <-over:
					return
				}
			}
			select {
			case <-changed:
			case <-over:
				return
			}
		}
	}()
	return all, func() {
		signal.Stop(changed)
		close(over)
	}
}

// The keys that detach: Ctrl-] as in telnet, or Ctrl-P Ctrl-Q as in Docker. All others go to the
// agent; Ctrl-P goes once the next key shows that it is not the first half.
const (
	keyDetach       = 0x1d
	keyDetachFirst  = 0x10
	keyDetachSecond = 0x11
)

// detachReader passes on the typed keys until those that detach.
type detachReader struct {
	r    io.Reader
	left chan struct{} // closed when the keys are typed

	mu    sync.Mutex
	begun bool // the last key was Ctrl-P
	ended bool
}

// Read may return one byte more than the underlying reader, so it asks for one less.
func (d *detachReader) Read(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(p) < 2 {
		return 0, io.ErrShortBuffer
	}
	for !d.ended {
		in := make([]byte, len(p)-1)
		n, err := d.r.Read(in)
		out := p[:0]
		for _, key := range in[:n] {
			if key == keyDetach || d.begun && key == keyDetachSecond {
				d.ended = true
				close(d.left)
				return len(out), io.EOF
			}
			if d.begun {
				out = append(out, keyDetachFirst)
			}
			if d.begun = key == keyDetachFirst; !d.begun {
				out = append(out, key)
			}
		}
		if len(out) > 0 || err != nil {
			return len(out), err
		}
	}
	return 0, io.EOF
}

// close waits for a cancelled Read, and prevents further ones.
func (d *detachReader) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
}
