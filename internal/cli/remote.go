package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/config"
	"github.com/coppice-dev/coppice/internal/daemon"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/status"
)

// remote is the project that a command is about, and whose daemon it asks.
type remote struct{ file string }

// flags adds the flag that names the project's file.
func (r *remote) flags(cmd *cobra.Command) { configFlag(cmd, &r.file) }

// longFlags is flags for commands whose -f means to follow.
func (r *remote) longFlags(cmd *cobra.Command) { configFlagShort(cmd, &r.file, "") }

// find returns the file of the project. Where it is gone, it is where it was: a
// daemon that has lost its file goes on, and has to be asked and stopped.
func (r *remote) find() (string, error) {
	file, err := findConfig(r.file)
	if err == nil && r.file != "" && !exists(file) && !exists(filepath.Join(filepath.Dir(file), api.Dir)) {
		return "", &exitError{exitConfig, fmt.Errorf("%s: no such file; coppice init writes one", r.file)}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	dir, e := filepath.Abs(r.file) // a directory, or here
	for ; e == nil; dir = filepath.Dir(dir) {
		if info, e := os.Stat(filepath.Join(dir, api.Dir)); e == nil && info.IsDir() {
			return filepath.Join(dir, config.FileName), nil
		}
		if dir == filepath.Dir(dir) || r.file != "" {
			break
		}
	}
	return file, err
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil || !errors.Is(err, fs.ErrNotExist)
}

// dial returns a client of the project's daemon. What agents and orders run is
// part of a project wherever it is: where there is no file, theirs is meant.
func (r *remote) dial() (*api.Client, error) {
	file, err := r.find()
	own := os.Getenv(proc.EnvSocket)
	if errors.Is(err, fs.ErrNotExist) && r.file == "" && own != "" {
		return api.DialFrom(own, ownToken()), nil
	}
	if err != nil {
		return nil, err
	}
	socket, err := api.SocketPath(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	if isOwnSocket(socket) {
		return api.DialFrom(own, ownToken()), nil
	}
	return api.Dial(socket), nil
}

// isOwnSocket reports whether the daemon at a socket is that of the agent that this
// program is part of, which may reach it by another one.
func isOwnSocket(socket string) bool {
	own := os.Getenv(proc.EnvSocket)
	return own == socket || own == api.GuestSocketPath(socket, uint32(os.Geteuid()))
}

// ownToken returns the token of the agent that this program is part of; empty if
// it is of none.
func ownToken() string {
	if me, err := self(); err == nil {
		return me.Token
	}
	return ""
}

// onlyPeople refuses to do in an agent of the project at a file what is for
// people and what no daemon is asked for.
func onlyPeople(file, what string) error {
	socket, err := api.SocketPath(filepath.Dir(file))
	if err != nil || ownToken() == "" || !isOwnSocket(socket) {
		return nil
	}
	return &exitError{exitAuth, fmt.Errorf("only people can run %s, and this runs in agent %s of the project; "+
		"an agent can ask a person with: coppice agent ask",
		what, proc.Plain(os.Getenv(proc.EnvAgent)))}
}

// ask calls do with a client, and with a context that ends with a signal.
func (r *remote) ask(do func(context.Context, *api.Client) error) error {
	client, err := r.dial()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, stop := untilSignal(context.Background())
	defer stop()
	err = do(ctx, client)
	if errors.Is(err, api.ErrDown) {
		if file, e := r.find(); e == nil {
			if last := project.LastExit(file); last != "" {
				err = fmt.Errorf("%w\n%s", err, proc.Plain(last))
			}
		}
	}
	return err
}

// look is ask for commands that only read. While no daemon runs, they show what the
// last one has left, and say so on the error output.
func (r *remote) look(s *streams, do func(context.Context, *api.Client) error) error {
	client, err := r.dial()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, stop := untilSignal(context.Background())
	defer stop()
	down := client.Reach(ctx)
	if !errors.Is(down, api.ErrDown) {
		return do(ctx, client)
	}
	file, err := r.find()
	if err != nil { // an agent's socket, and no file
		return down
	}
	records, err := daemon.OpenRecords(ctx, file)
	var locked *project.LockedError
	switch {
	case errors.As(err, &locked):
		return fmt.Errorf("%w\nprocess %d has the project and does not answer; it is starting or stopping", down,
			locked.Holder.PID)
	case err != nil:
		return &exitError{exitNoDaemon, fmt.Errorf("%w\nits records cannot be read: %w", down, err)}
	}
	defer records.Close()
	note := "no daemon is running here"
	if last := project.LastExit(file); last != "" {
		note += "; " + last
	}
	s.complain(proc.Plain(note))
	if err := records.FileError(); err != nil {
		s.complain("the file cannot be used, so its agents are those on record: " +
			proc.Plain(strings.ReplaceAll(err.Error(), "\n", "; ")))
	}
	local := api.Local(records.Register)
	defer local.Close()
	return do(ctx, local)
}

// untilSignal returns a context that ends with the first signal, whose exit
// code is that of its cause. The next one ends the program.
func untilSignal(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		select {
		case sig := <-signals:
			cancel(&exitError{code: exitSignalled + int(sig.(syscall.Signal))})
			signal.Stop(signals)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// completePath offers the paths of the running fleet, without the first
// segment. Of a command that takes one path it offers nothing after that.
func (r *remote) completePath(many bool) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) (paths []cobra.Completion, _ cobra.ShellCompDirective) {
		const nothing = cobra.ShellCompDirectiveNoFileComp
		client, err := r.dial()
		if err != nil || len(args) > 0 && !many {
			return nil, nothing
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		nodes, err := status.List.Call(ctx, client, status.ListRequest{})
		if err != nil {
			return nil, nothing
		}
		for _, n := range nodes {
			_, path, below := strings.Cut(n.Path, "/")
			// What a shell would have to quote cannot be completed.
			if below && !slices.Contains(args, path) && path == proc.Plain(path) && !strings.ContainsAny(path, "\t\n") {
				paths = append(paths, cobra.CompletionWithDesc(path, shownState(n)))
			}
		}
		return paths, nothing
	}
}

// printJSON prints one value, indented for who looks at it.
func (s *streams) printJSON(v any) error {
	e := json.NewEncoder(terminal.InertWriter{W: s.out})
	e.SetEscapeHTML(false)
	if _, tty := terminal.Size(s.out); tty {
		e.SetIndent("", "  ")
	}
	return e.Encode(v)
}

// printLines prints lines.
func (s *streams) printLines(lines []string) error {
	_, err := io.WriteString(s.out, strings.Join(lines, "\n")+"\n")
	return err
}

// jsonFlag adds the flag that asks for JSON.
func jsonFlag(cmd *cobra.Command, into *bool, what string) {
	cmd.Flags().BoolVar(into, "json", false, "print "+what)
}

// onePath checks the arguments of a command that takes one path.
func onePath(cmd *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return fmt.Errorf("the path of an agent is missing; coppice ps lists them")
	case 1:
		return nil
	}
	return fmt.Errorf("unexpected argument %q: %s takes one path", args[1], cmd.CommandPath())
}
