package ready

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"os"
	"slices"
	"strconv"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// listener is a listening TCP socket.
type listener struct {
	at    netip.AddrPort
	inode uint64
}

// stateListen is TCP_LISTEN in /proc/net/tcp.
const stateListen = "0A"

// parseListeners returns the listeners in the content of /proc/net/tcp or /proc/net/tcp6
// (proc_net_tcp in the kernel's documentation). It skips lines that it cannot parse.
func parseListeners(b []byte) (all []listener) {
	for line := range bytes.Lines(b) {
		f := bytes.Fields(line)
		if len(f) < 10 || string(f[3]) != stateListen {
			continue
		}
		at, ok := parseEndpoint(f[1])
		inode, err := strconv.ParseUint(string(f[9]), 10, 64)
		if ok && err == nil && inode > 0 {
			all = append(all, listener{at, inode})
		}
	}
	return all
}

// parseEndpoint parses an address, in words of 32 bits in the byte order of this machine, and a
// port.
func parseEndpoint(b []byte) (netip.AddrPort, bool) {
	words, digits, ok := bytes.Cut(b, []byte(":"))
	raw := make([]byte, hex.DecodedLen(len(words)))
	if _, err := hex.Decode(raw, words); !ok || err != nil || len(raw) != 4 && len(raw) != 16 {
		return netip.AddrPort{}, false
	}
	for word := range slices.Chunk(raw, 4) {
		binary.NativeEndian.PutUint32(word, binary.BigEndian.Uint32(word))
	}
	port, err := strconv.ParseUint(string(digits), 16, 16)
	if err != nil {
		return netip.AddrPort{}, false
	}
	addr, _ := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr.Unmap(), uint16(port)), true
}

// accepting returns the inodes of the listeners that may accept connections to an address: those
// at the address itself, or else those at all addresses.
func accepting(all []listener, at netip.AddrPort) (inodes []uint64) {
	for _, wild := range []bool{false, true} {
		for _, l := range all {
			same := l.at.Addr() == at.Addr()
			if wild {
				same = l.at.Addr().IsUnspecified() && (l.at.Addr().Is6() || at.Addr().Is4())
			}
			if same && l.at.Port() == at.Port() {
				inodes = append(inodes, l.inode)
			}
		}
		if len(inodes) > 0 {
			return inodes
		}
	}
	return nil
}

// listenerOf returns a *ForeignError if a listener is known to belong to a process that is not
// the agent's. It returns nil if the kernel does not tell, or if the process may hold the port
// on behalf of the agent.
func listenerOf(at netip.AddrPort, agent int, mark proc.Mark) error {
	var all []listener
	for _, file := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		if b, err := os.ReadFile(file); err == nil {
			all = append(all, parseListeners(b)...)
		}
	}
	inodes := accepting(all, at)
	pids, err := proc.PIDs()
	if len(inodes) == 0 || err != nil {
		return nil // the listener is in another network namespace, or is gone
	}
	holders := slices.DeleteFunc(pids, func(pid int) bool { return !holds(pid, inodes) })
	own, foreign := newKinship(agent, mark), (*ForeignError)(nil)
	for _, pid := range holders {
		if own.has(pid) || own.mayServe(pid) {
			return nil
		}
		if foreign == nil {
			env := proc.EnvironmentOf(pid)
			foreign = &ForeignError{Port: at.Port(), PID: pid, Name: proc.NameOf(pid), Agent: env[proc.EnvAgent]}
		}
	}
	if foreign == nil {
		return nil // the files of the process cannot be read here
	}
	return foreign
}

// holds reports whether one of some sockets is open in a process.
func holds(pid int, inodes []uint64) bool {
	for inode := range proc.SocketsOf(pid) {
		if slices.Contains(inodes, inode) {
			return true
		}
	}
	return false
}

// kinship decides whether processes belong to an agent.
type kinship struct {
	leader int       // pid of the agent's process
	mark   proc.Mark // of the agent; 0 if it has none
	start  uint64    // start time of the agent's process
	ended  bool      // the agent's process is gone, so nothing serves on its behalf
	env    map[string]string
}

func newKinship(agent int, mark proc.Mark) *kinship {
	k := &kinship{leader: agent, mark: mark, env: proc.EnvironmentOf(agent)}
	id, err := proc.Identify(agent)
	k.start, k.ended = id.Start, err != nil
	return k
}

// has reports whether a process is part of the agent: because it belongs to the agent's process,
// has the mark of the agent, or has the variables of the agent's incarnation.
func (k *kinship) has(pid int) bool {
	if proc.BelongsTo(pid, k.leader) || k.mark != 0 && proc.ReadMark(pid) == k.mark {
		return true
	}
	env := proc.EnvironmentOf(pid)
	for _, name := range []string{proc.EnvAgent, proc.EnvIncarnation, proc.EnvSocket} {
		if env[name] != k.env[name] {
			return false
		}
	}
	return env[proc.EnvAgent] != ""
}

// mayServe reports whether a process that is not part of the agent may hold a port on its
// behalf. That is a process of no agent that was started later, such as by a container engine
// for the agent, or a program that holds ports for others.
func (k *kinship) mayServe(pid int) bool {
	id, err := proc.Identify(pid)
	if err != nil {
		return true // it has ended meanwhile
	}
	if k.ended || proc.EnvironmentOf(pid)[proc.EnvAgent] != "" {
		return false
	}
	return id.Start > k.start || slices.Contains(portHolders, proc.NameOf(pid))
}

// portHolders are programs that hold ports for others: container engines and their networks, and
// systemd for services with socket activation.
var portHolders = []string{
	"systemd", "docker-proxy", "dockerd", "rootlesskit", "rootlessport", "slirp4netns", "pasta", "pasta.avx2", "passt",
	"passt.avx2", "gvproxy", "conmon", "containerd-shim", "k3s", "kubelet", "kube-proxy",
}
