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
	// Caller returns whose token it is, token.ErrStale if it is that of no living incarnation.
	Caller(ctx context.Context, token string) (token.Caller, error)
	// Owner returns the agent that a living process belongs to; nil if it belongs
	// to none. The error is os.ErrProcessDone if there is no such process to be
	// seen; with any other one it may belong to an agent.
	Owner(pid int) (*token.Caller, error)
	// RunOf returns the name of the order that a living process is a run of, or
	// belongs to one; it is empty if there is none.
	RunOf(pid int) string
	// Denied records that an agent was refused what is for people.
	Denied(who token.Caller, pid int, request string)
}

// origin is the process that has opened a connection.
type origin struct {
	pid     int           // 0 if the kernel does not say
	agent   *token.Caller // that it belongs to; nil if to none
	unknown bool          // it had ended before it was known whose it is
}

// originOf finds the process that has opened a connection. The kernel remembers
// it, whatever becomes of the connection.
func originOf(conn net.Conn, a Access) origin {
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
	// The number may be another process's by now, which is the owner of nothing.
	if agent != nil && !endpoint.Ended(socket, pid) {
		return origin{pid: pid, agent: agent}
	}
	// One that lives and cannot be seen is another user's, where /proc hides those.
	return origin{pid: pid, unknown: err != nil && !errors.Is(err, os.ErrProcessDone) || endpoint.Ended(socket, pid)}
}

// guestOrigin is originOf for a process of another user: an agent, even if it cannot be told which.
func guestOrigin(socket *net.UnixConn, pid int, a Access) origin {
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

// maxToken bounds a token, in bytes.
const maxToken = 256

// authenticate finds out who calls. A route is for agents or for people, never
// for both. An agent acts as itself alone: with its token, and not with that of
// another agent. What is for people is refused to it, with or without a token.
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

// forPeople reports whether a route does something in the name of a person.
// Everybody may read.
func (rt *route) forPeople() bool { return !rt.agent && rt.method != http.MethodGet }

// admitPerson refuses a request for people that comes from an agent, whether it
// has sent its token or not.
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

// forOrder is the context of a request, with the order whose run has sent it.
func (c *call) forOrder() context.Context {
	ctx := c.r.Context()
	if from := c.connection().origin(); from.pid > 0 {
		if name := c.access.RunOf(from.pid); name != "" {
			return WithOrder(ctx, name)
		}
	}
	return ctx
}

// WithOrder returns a context for what a run of an order asks for.
func WithOrder(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, orderKey{}, name)
}

// OrderOf returns the name of the order that asks for something; it is empty for a person.
func OrderOf(ctx context.Context) string {
	name, _ := ctx.Value(orderKey{}).(string)
	return name
}
