package ready

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// ForeignError reports that the condition of an agent was met by a process that is not part of
// it.
type ForeignError struct {
	Port  uint16
	PID   int
	Name  string // of its program
	Agent string // path of the agent that the process belongs to; empty if none
}

func (e *ForeignError) Error() string {
	held := fmt.Sprintf("port %d is held by pid %d (%s), which ", e.Port, e.PID, plaintext.Line(e.Name))
	if e.Agent != "" {
		return held + "belongs to agent " + plaintext.Line(e.Agent)
	}
	return held + "is not part of this agent"
}

// checkOwner returns a *ForeignError if the listener that accepted conn is known to belong to
// another process than the agent's. mark is that of the agent; 0 if it has none.
func checkOwner(conn net.Conn, agent Subject, mark proc.Mark) error {
	local, ok := addrPort(conn.LocalAddr())
	remote, okay := addrPort(conn.RemoteAddr())
	if !ok || !okay || agent == nil {
		return nil
	}
	if !remote.Addr().IsLoopback() && remote.Addr() != local.Addr() {
		return nil // another machine
	}
	return listenerOf(remote, agent.PID(), mark)
}

func addrPort(a net.Addr) (netip.AddrPort, bool) {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, false
	}
	at := tcp.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port()), at.IsValid()
}
