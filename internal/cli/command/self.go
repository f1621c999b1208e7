package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
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
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// AgentTimeout bounds how long an agent waits for a daemon to answer.
const AgentTimeout = time.Minute

// Self returns the agent that runs this program, from the environment.
func Self() (proc.Self, error) { return selfWith(os.Getenv(proc.EnvToken)) }

// maxTokenFile bounds a file with a token, in bytes.
const maxTokenFile = 4 << 10

// SelfWithTokenFile is Self with the token in a file.
func SelfWithTokenFile(path string) (proc.Self, error) {
	f, err := os.Open(path)
	if err != nil {
		return proc.Self{}, fmt.Errorf("reading the token: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxTokenFile {
		return proc.Self{}, Exitf(exitAuth, "%s is not a file with a token", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxTokenFile))
	if err != nil {
		return proc.Self{}, fmt.Errorf("reading the token: %w", err)
	}
	return selfWith(strings.TrimSuffix(string(text), "\n"))
}

func selfWith(token string) (proc.Self, error) {
	me := proc.Self{Agent: os.Getenv(proc.EnvAgent), Socket: os.Getenv(proc.EnvSocket), Token: token}
	fmt.Sscan(os.Getenv(proc.EnvIncarnation), &me.Incarnation)
	if me.Socket == "" || me.Token == "" {
		return me, Usagef("not in an agent of coppice: %s and %s are not set; "+
			"these commands are for programs that coppice.toml starts",
			proc.EnvSocket, proc.EnvToken)
	}
	if strings.ContainsFunc(me.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return me, Exitf(exitAuth, "%s is not a token: it has blanks, line ends or other "+
			"invalid characters", proc.EnvToken)
	}
	return me, nil
}

// AskAsAgent calls do with a client that acts as the agent running this program. It repeats do
// while no daemon answers, so do must be idempotent.
func AskAsAgent(do func(context.Context, *api.Client) error) error {
	return AskAsAgentFor(AgentTimeout, do)
}

// AskAsAgentFor is AskAsAgent with another timeout.
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

// isOwnSocket reports whether a socket belongs to the daemon of the agent that runs this program.
// An agent of another user reaches that daemon by another socket.
func isOwnSocket(socket string) bool {
	own := os.Getenv(proc.EnvSocket)
	return own == socket || own == endpoint.GuestPath(socket, uint32(os.Geteuid()))
}

// OwnToken returns the token of the agent that runs this program; empty outside of an agent.
func OwnToken() string {
	if me, err := Self(); err == nil {
		return me.Token
	}
	return ""
}

// OnlyPeople returns an error if an agent of the project runs this program. It guards commands that
// call no daemon, which would check the caller.
func OnlyPeople(file, what string) error {
	socket, err := endpoint.Path(filepath.Dir(file))
	if err != nil || OwnToken() == "" || !isOwnSocket(socket) {
		return nil
	}
	return Exitf(exitAuth, "only people can run %s, and this runs in agent %s of the project; "+
		"an agent can ask a person with: coppice agent ask",
		what, plaintext.Line(os.Getenv(proc.EnvAgent)))
}

// UntilSignal returns a context that the first signal cancels; the cause has its exit code. The
// second signal ends the program.
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

// UserName returns the name of the user.
func UserName() string {
	u, err := user.Current()
	if err != nil {
		return mail.People
	}
	return cmp.Or(plaintext.Line(u.Username), mail.People)
}

// NoTimeout makes an agent wait forever, across daemons: people may take long to answer.
const NoTimeout = math.MaxInt64 / 2 * time.Nanosecond
