package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/token"
)

// Access tells agents from people.
type Access interface {
	Processes
	// Caller returns the incarnation of a token, or token.ErrStale if it belongs to no running
	// incarnation.
	Caller(ctx context.Context, token string) (token.Caller, error)
	// Denied records that an agent was refused a request that is for people.
	Denied(who token.Caller, pid int, request string)
}

// Processes tells to what the processes of this machine belong.
type Processes interface {
	// Owner returns the agent that a running process belongs to, or nil if it belongs to none.
	// The error is os.ErrProcessDone if the process cannot be seen; after any other error it may
	// belong to an agent.
	Owner(pid int) (*token.Caller, error)
	// RunOf returns the name of the order whose run a process belongs to, or "".
	RunOf(pid int) string
}

// origin is the process that opened a connection.
type origin struct {
	pid     int           // 0 if the kernel does not tell
	agent   *token.Caller // the agent that it belongs to, or nil
	unknown bool          // it ended before its agent could be determined
	run     func() string // returns the name of the order whose run it belongs to, or ""; nil for none
}

// originOf determines the process that opened a connection. The kernel remembers it even if the
// connection is passed on.
func originOf(conn net.Conn, a Processes) origin {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return origin{}
	}
	uid, pid, err := endpoint.Peer(socket)
	if err != nil {
		return origin{}
	}
	if !endpoint.Trusted(uid) { // only agents run as other users
		return guestOrigin(socket, pid, a)
	}
	if pid <= 0 {
		return origin{}
	}
	agent, err := a.Owner(pid)
	// The number may have been reused by another process by now.
	if agent != nil && !endpoint.Ended(socket, pid) {
		return origin{pid: pid, agent: agent}
	}
	// A running process that cannot be seen belongs to another user, if /proc hides those.
	return origin{
		pid: pid, unknown: err != nil && !errors.Is(err, os.ErrProcessDone) || endpoint.Ended(socket, pid),
		run: func() string { return a.RunOf(pid) },
	}
}

// guestOrigin is originOf for a process of another user. It is an agent, even if it cannot be
// determined which one.
func guestOrigin(socket *net.UnixConn, pid int, a Processes) origin {
	unnamed := origin{pid: pid, agent: &token.Caller{}}
	if pid <= 0 {
		return unnamed
	}
	agent, err := a.Owner(pid)
	if err != nil || agent == nil || endpoint.Ended(socket, pid) {
		return unnamed
	}
	return origin{pid: pid, agent: agent}
}

// maxToken is the maximum length of a token, in bytes.
const maxToken = 256

// authenticate determines the caller. A route is for agents or for people, never for both. An
// agent acts only as itself: with its own token, not with the token of another agent. It may not
// use what is for people, with or without a token.
func (c *call) authenticate(rt *route) error {
	token, given := strings.CutPrefix(c.r.Header.Get("Authorization"), "Bearer ")
	switch {
	case !given && c.r.Header.Get("Authorization") != "":
		return fmt.Errorf("%w: the header Authorization is not Bearer and a token", ErrUnauthorized)
	case given && (token == "" || len(token) > maxToken):
		return fmt.Errorf("%w: a token of %d bytes", ErrUnauthorized, len(token))
	case !given && rt.agent:
		return fmt.Errorf("%w: %s is for agents, which prove who they are by the token in COPPICE_TOKEN",
			ErrUnauthorized, rt.path)
	case !rt.agent && !rt.forPeople():
		return nil
	case !given:
		if err := c.admitPerson(rt); err != nil {
			return err
		}
		c.r = c.r.WithContext(c.forOrder())
		return nil
	}
	who, err := c.access.Caller(c.r.Context(), token)
	if err != nil {
		return err
	}
	from := c.connection().origin()
	switch {
	case !rt.agent:
		return c.deny(rt, who, from.pid)
	case from.agent != nil && from.agent.Path != "" && from.agent.Path != who.Path:
		return fmt.Errorf("%w: the token is that of agent %s, and this comes from agent %s (process %d)",
			ErrUnauthorized, who.Path, from.agent.Path, from.pid)
	}
	c.caller = who
	return nil
}

// forPeople reports whether a route acts in the name of a person. Everyone may read.
func (rt *route) forPeople() bool { return !rt.agent && rt.method != http.MethodGet }

// admitPerson refuses a request for people that comes from an agent, even if it was sent without
// a token.
func (c *call) admitPerson(rt *route) error {
	from := c.connection().origin()
	switch {
	case from.agent != nil:
		return c.deny(rt, *from.agent, from.pid)
	case from.unknown:
		return fmt.Errorf("%w: %s; process %d, which opened this connection, ended before it was known whose it is",
			ErrUnauthorized, onlyPeople(rt), from.pid)
	}
	return nil
}

type orderKey struct{}

// forOrder returns the context of a request, with the order whose run sent it.
func (c *call) forOrder() context.Context {
	ctx := c.r.Context()
	if from := c.connection().origin(); from.run != nil {
		if name := from.run(); name != "" {
			return WithOrder(ctx, name)
		}
	}
	return ctx
}

// WithOrder returns a context for requests of a run of an order.
func WithOrder(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, orderKey{}, name)
}

// OrderOf returns the name of the order that sent a request, or "" for a person.
func OrderOf(ctx context.Context) string {
	name, _ := ctx.Value(orderKey{}).(string)
	return name
}
