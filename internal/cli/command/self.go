package command

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// AgentTimeout bounds how long an agent waits for a daemon to answer.
const AgentTimeout = time.Minute

// Self reads from the environment which agent runs this program.
func Self() (proc.Self, error) {
	me := proc.Self{Agent: os.Getenv(proc.EnvAgent), Socket: os.Getenv(proc.EnvSocket), Token: os.Getenv(proc.EnvToken)}
	fmt.Sscan(os.Getenv(proc.EnvIncarnation), &me.Incarnation)
	if me.Socket == "" || me.Token == "" {
		return me, Usagef("no agent of coppice runs this: %s and %s are not set; "+
			"these commands are for programs that coppice.toml names, and what those start",
			proc.EnvSocket, proc.EnvToken)
	}
	if strings.ContainsFunc(me.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return me, Exitf(exitAuth, "%s is no token: it has blanks, line ends or other "+
			"characters that no token has", proc.EnvToken)
	}
	return me, nil
}

// AskAsAgent calls do with a client that acts as the agent which runs this
// program. While no daemon answers do is called again and again: it has to be
// something that may be done twice.
func AskAsAgent(do func(context.Context, *api.Client) error) error {
	return AskAsAgentFor(AgentTimeout, do)
}

// AskAsAgentFor does as AskAsAgent, and waits that long for a daemon.
func AskAsAgentFor(timeout time.Duration, do func(context.Context, *api.Client) error) error {
	me, err := Self()
	if err != nil {
		return err
	}
	client := api.DialAgent(me.Socket, me.Token)
	defer client.Close()
	ctx, stop := UntilSignal(context.Background())
	defer stop()
	return api.Retry(ctx, timeout, func() error { return do(ctx, client) })
}

// isOwnSocket reports whether the daemon at a socket is that of the agent that this
// program is part of, which may reach it by another one.
func isOwnSocket(socket string) bool {
	own := os.Getenv(proc.EnvSocket)
	return own == socket || own == endpoint.GuestPath(socket, uint32(os.Geteuid()))
}

// OwnToken returns the token of the agent that this program is part of; empty if
// it is of none.
func OwnToken() string {
	if me, err := Self(); err == nil {
		return me.Token
	}
	return ""
}

// OnlyPeople returns an error if an agent of the project at a file runs this program. It guards
// commands for people that ask no daemon.
func OnlyPeople(file, what string) error {
	socket, err := endpoint.Path(filepath.Dir(file))
	if err != nil || OwnToken() == "" || !isOwnSocket(socket) {
		return nil
	}
	return Exitf(exitAuth, "only people can run %s, and this runs in agent %s of the project; "+
		"an agent can ask a person with: coppice agent ask",
		what, proc.Plain(os.Getenv(proc.EnvAgent)))
}

// UntilSignal returns a context that ends with the first signal, whose exit
// code is that of its cause. The next one ends the program.
func UntilSignal(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		select {
		case sig := <-signals:
			cancel(Exit(ExitSignalled+int(sig.(syscall.Signal)), nil))
			signal.Stop(signals)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// UserName returns the name of the user, for others to read.
func UserName() string {
	u, err := user.Current()
	if err != nil {
		return mail.People
	}
	return cmp.Or(proc.Plain(u.Username), mail.People)
}

// NoTimeout makes an agent wait for the next daemon too: a person may take longer to answer than
// any daemon lives.
const NoTimeout = math.MaxInt64 / 2 * time.Nanosecond
