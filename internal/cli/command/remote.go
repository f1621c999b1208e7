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
	"github.com/coppice-dev/coppice/internal/cli/show"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/config"
	"github.com/coppice-dev/coppice/internal/daemon"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/status"
)

// Remote finds the project that a command is about, and calls its daemon.
type Remote struct {
	File string
	s    *Streams
}

// NewRemote returns the project of a command with these streams.
func NewRemote(s *Streams) *Remote { return &Remote{s: s} }

// Via calls do with a client of a daemon.
type Via func(do func(context.Context, *api.Client) error) error

// Call calls a route of that daemon.
func Call[Req, Resp any](via Via, route api.Route[Req, Resp], req Req) (resp Resp, err error) {
	err = via(func(ctx context.Context, c *api.Client) (err error) {
		resp, err = route.Call(ctx, c, req)
		return err
	})
	return resp, err
}

// Show calls a route and prints the answer as Streams.Print does.
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

// LongFlags adds the flag without its short form, for commands whose -f means to follow.
func (r *Remote) LongFlags(cmd *cobra.Command) { configFlagShort(cmd, &r.File, "") }

// Find returns the file of the project. Where it is gone, it is where it was: a
// daemon that has lost its file goes on, and has to be asked and stopped.
func (r *Remote) Find() (string, error) {
	file, err := FindConfig(r.File)
	if err == nil && r.File != "" && !exists(file) && !exists(filepath.Join(filepath.Dir(file), endpoint.Dir)) {
		return "", Exitf(ExitConfig, "%s: no such file; coppice init writes one", r.File)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	dir, e := filepath.Abs(r.File) // a directory, or here
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

// dial returns a client of the project's daemon. What agents and orders run is
// part of a project wherever it is: where there is no file, theirs is meant.
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

// Ask calls do with a client, and with a context that ends with a signal.
func (r *Remote) Ask(do func(context.Context, *api.Client) error) error {
	client, err := r.dial()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, stop := UntilSignal(context.Background())
	defer stop()
	err = do(ctx, client)
	if errors.Is(err, api.ErrDown) {
		if file, e := r.Find(); e == nil {
			if last := project.LastExit(file); last != "" {
				err = fmt.Errorf("%w\n%s", err, proc.Plain(last))
			}
		}
	}
	return err
}

// Look calls do as Ask does, for commands that only read. While no daemon runs, the client
// reads what the last one has saved; a line on the error output says so.
func (r *Remote) Look(do func(context.Context, *api.Client) error) error {
	client, err := r.dial()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, stop := UntilSignal(context.Background())
	defer stop()
	down := client.Reach(ctx)
	if !errors.Is(down, api.ErrDown) {
		return do(ctx, client)
	}
	file, err := r.Find()
	if err != nil { // an agent's socket, and no file
		return down
	}
	records, err := daemon.OpenRecords(ctx, file)
	if locked, ok := errors.AsType[*project.LockedError](err); ok {
		return fmt.Errorf("%w\nprocess %d has the project and does not answer; it is starting or stopping", down,
			locked.Holder.PID)
	}
	if err != nil {
		return Exitf(ExitNoDaemon, "%w\nits records cannot be read: %w", down, err)
	}
	defer records.Close()
	note := "no daemon is running here"
	if last := project.LastExit(file); last != "" {
		note += "; " + last
	}
	r.s.Complain(proc.Plain(note))
	if err := records.FileError(); err != nil {
		r.s.Complain("the file cannot be used, so its agents are those on record: " +
			proc.Plain(strings.ReplaceAll(err.Error(), "\n", "; ")))
	}
	local := api.Local(records.Register)
	defer local.Close()
	return do(ctx, local)
}

// Complete returns a completion that asks the daemon; it offers nothing while none answers.
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

// CompletePath offers the paths of the running fleet, without the first
// segment. Of a command that takes one path it offers nothing after that.
func (r *Remote) CompletePath(many bool) cobra.CompletionFunc {
	return r.Complete(func(ctx context.Context, c *api.Client, args []string) (paths []cobra.Completion, _ error) {
		if len(args) > 0 && !many {
			return nil, nil
		}
		nodes, err := status.List.Call(ctx, c, status.ListRequest{})
		for _, n := range nodes {
			_, path, below := strings.Cut(n.Path, "/")
			// What a shell would have to quote cannot be completed.
			if below && !slices.Contains(args, path) && path == proc.Plain(path) && !strings.ContainsAny(path, "\t\n") {
				paths = append(paths, cobra.CompletionWithDesc(path, show.State(n)))
			}
		}
		return paths, err
	})
}

// ProjectTimeout bounds the wait for the answer of one project when all are listed.
const ProjectTimeout = 3 * time.Second
