package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/config"
	"github.com/coppice-dev/coppice/internal/controller"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/status"
)

// Remote finds the project of a command and calls its daemon.
type Remote struct {
	File string
	s    *Streams
}

// NewRemote returns a Remote that prints notes to these streams.
func NewRemote(s *Streams) *Remote { return &Remote{s: s} }

// Via calls do with a client of a daemon, as Remote.Ask, Remote.Look and AskAsAgent do.
type Via func(do func(context.Context, *api.Client) error) error

// Call calls a route through via.
func Call[Req, Resp any](via Via, route api.Route[Req, Resp], req Req) (resp Resp, err error) {
	err = via(func(ctx context.Context, c *api.Client) (err error) {
		resp, err = route.Call(ctx, c, req)
		return err
	})
	return resp, err
}

// Show calls a route and prints the answer with Streams.Print.
func Show[Req, Resp any](s *Streams, via Via, route api.Route[Req, Resp], req Req,
	lines func(answer Resp, p terminal.Paint, width int) []string,
) error {
	answer, err := Call(via, route, req)
	if err != nil {
		return err
	}
	return s.Print(answer, func(p terminal.Paint, width int) []string { return lines(answer, p, width) })
}

// Flags adds the flag that names the project's file.
func (r *Remote) Flags(cmd *cobra.Command) { ConfigFlag(cmd, &r.File) }

// LongFlags adds --file without -f, for commands whose -f means to follow.
func (r *Remote) LongFlags(cmd *cobra.Command) { configFlagShort(cmd, &r.File, "") }

// Find returns the configuration of the project. If the file is gone, it returns its former path:
// the daemon still runs, and must be reachable.
func (r *Remote) Find() (string, error) {
	file, err := FindConfig(r.File)
	if err == nil && r.File != "" && !exists(file) && !exists(filepath.Join(filepath.Dir(file), endpoint.Dir)) {
		return "", Exitf(ExitConfig, "%s: no such file; coppice init writes one", r.File)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	dir, e := filepath.Abs(r.File) // empty means the current directory
	for ; e == nil; dir = filepath.Dir(dir) {
		if IsDir(filepath.Join(dir, endpoint.Dir)) {
			return filepath.Join(dir, config.FileName), nil
		}
		if dir == filepath.Dir(dir) || r.File != "" {
			break
		}
	}
	return file, err
}

// dial returns a client of the project's daemon. Without a project here, a program that an agent or
// order runs gets the daemon of that agent or order.
func (r *Remote) dial() (*api.Client, error) {
	file, err := r.Find()
	own := os.Getenv(proc.EnvSocket)
	if errors.Is(err, fs.ErrNotExist) && r.File == "" && own != "" {
		return api.DialFrom(own, OwnToken()), nil
	}
	if err != nil {
		return nil, err
	}
	socket, err := endpoint.Path(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	if isOwnSocket(socket) {
		return api.DialFrom(own, OwnToken()), nil
	}
	return api.Dial(socket), nil
}

// Ask calls do with a client, and a context that a signal cancels.
func (r *Remote) Ask(do func(context.Context, *api.Client) error) error {
	ctx, stop := UntilSignal(context.Background())
	defer stop()
	return r.ask(ctx, do)
}

// AskFor calls do with a client, and repeats it while no daemon answers, for at most timeout.
func (r *Remote) AskFor(ctx context.Context, timeout time.Duration,
	do func(context.Context, *api.Client) error,
) error {
	return api.Retry(ctx, timeout, func() error { return r.ask(ctx, do) })
}

func (r *Remote) ask(ctx context.Context, do func(context.Context, *api.Client) error) error {
	client, err := r.dial()
	if err != nil {
		return err
	}
	defer client.Close()
	err = do(ctx, client)
	if errors.Is(err, api.ErrDown) {
		if file, e := r.Find(); e == nil {
			if last := project.LastExit(file); last != "" {
				err = fmt.Errorf("%w\n%s", err, plaintext.Line(last))
			}
		}
	}
	return err
}

// Look is Ask for commands that only read. Without a daemon, the client reads the stored records,
// and a note on standard error says so.
func (r *Remote) Look(do func(context.Context, *api.Client) error) error {
	ctx, stop := UntilSignal(context.Background())
	defer stop()
	return r.look(ctx, r.s.Complain, do)
}

// LookFor calls do with a client, or without a daemon with one that reads the stored records; note
// gets a line that says so. It repeats do while a daemon starts or stops, for at most timeout.
func (r *Remote) LookFor(ctx context.Context, timeout time.Duration, note func(string),
	do func(context.Context, *api.Client) error,
) error {
	return api.Retry(ctx, timeout, func() error { return r.look(ctx, note, do) })
}

func (r *Remote) look(ctx context.Context, note func(string), do func(context.Context, *api.Client) error) error {
	client, err := r.dial()
	if err != nil {
		return err
	}
	defer client.Close()
	down := client.Reach(ctx)
	if !errors.Is(down, api.ErrDown) {
		return do(ctx, client)
	}
	file, err := r.Find()
	if err != nil { // the client was for an agent's socket
		return down
	}
	records, err := controller.OpenRecords(ctx, file)
	if locked, ok := errors.AsType[*project.LockedError](err); ok {
		return fmt.Errorf("%w\nprocess %d has the project and does not answer; it is starting or stopping", down,
			locked.Holder.PID)
	}
	if err != nil { // not an api.ErrDown: to wait for a daemon would not help
		return Exitf(ExitNoDaemon, "%v\nits records cannot be read: %w", down, err)
	}
	defer records.Close()
	text := "no daemon is running here"
	if last := project.LastExit(file); last != "" {
		text += "; " + last
	}
	note(plaintext.Line(text))
	if err := records.FileError(); err != nil {
		note("the file is invalid, so agents are shown as recorded: " +
			plaintext.Line(strings.ReplaceAll(err.Error(), "\n", "; ")))
	}
	local := api.Local(records.Register)
	defer local.Close()
	return do(ctx, local)
}

// Complete returns a completion that calls the daemon. Without a daemon it completes nothing.
func (r *Remote) Complete(words func(ctx context.Context, c *api.Client, args []string) ([]cobra.Completion, error),
) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) (all []cobra.Completion, _ cobra.ShellCompDirective) {
		if client, err := r.dial(); err == nil {
			defer client.Close()
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			all, _ = words(ctx, client, args)
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompletePath completes paths of the running fleet, without the first segment. If many is false,
// it completes one argument only.
func (r *Remote) CompletePath(many bool) cobra.CompletionFunc {
	return r.Complete(func(ctx context.Context, c *api.Client, args []string) (paths []cobra.Completion, _ error) {
		if len(args) > 0 && !many {
			return nil, nil
		}
		nodes, err := status.List.Call(ctx, c, status.ListRequest{})
		for _, n := range nodes {
			_, path, below := strings.Cut(n.Path, "/")
			// Names that a shell would have to quote cannot be completed.
			if below && !slices.Contains(args, path) && path == plaintext.Line(path) &&
				!strings.ContainsAny(path, "\t\n") {
				paths = append(paths, cobra.CompletionWithDesc(path, n.Shown()))
			}
		}
		return paths, err
	})
}

// ProjectTimeout bounds the wait for the daemon of one project.
const ProjectTimeout = 3 * time.Second
