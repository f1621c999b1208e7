package api

import "net"

// Access tells agents from people.
type Access interface {
	// Owner returns the agent that a living process belongs to; nil if it belongs
	// to none. An error means that it cannot be told, because it has ended.
	Owner(pid int) (*Caller, error)
}

// Name names an agent for people. One without a path is an agent in tmux.
func (c Caller) Name() string {
	if c.Path == "" {
		return "an agent in the project's tmux server"
	}
	return "agent " + c.Path
}

// origin is the process that has opened a connection.
type origin struct {
	pid     int     // 0 if the kernel does not say
	agent   *Caller // that it belongs to; nil if to none
	unknown bool    // it had ended before it was known whose it is
}

// originOf finds out who has opened a connection. The kernel remembers the
// process that did, whatever becomes of the connection.
func originOf(conn net.Conn, a Access) origin {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return origin{}
	}
	_, pid, err := peer(socket)
	if err != nil || pid <= 0 {
		return origin{}
	}
	agent, err := a.Owner(pid)
	// The number may be another process's by now, which is the owner of nothing.
	if agent != nil && !ended(socket, pid) {
		return origin{pid: pid, agent: agent}
	}
	return origin{pid: pid, unknown: err != nil || ended(socket, pid)}
}
