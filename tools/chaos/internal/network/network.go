// Package network connects the nodes of a fleet with each other and with the members of etcd, and cuts them off.
package network

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
	"github.com/coppice-dev/coppice/tools/chaos/internal/trial"
)

// Members is the number of members of etcd, and of nodes.
const Members = 3

// Network connects nodes with each other and with the members of etcd.
type Network interface {
	// Endpoints returns the addresses of the members for a node, and Address the one at which the node listens.
	Endpoints(node int) []string
	Address(node int) string
	// Command returns a command that runs at a node.
	Command(node int, name string, args ...string) *exec.Cmd
	// Cut cuts a node off from all others, or ends that. CutMember does that to a member.
	Cut(node int, off bool) error
	CutMember(member int, off bool) error
	// Kill kills a member, and Start starts it again.
	Kill(member int)
	Start(member int) error
	Close()
}

// New returns namespaces if this machine allows them.
func New(o trial.Options) (Network, error) {
	if o.Namespaces {
		n, err := newNamespaces(o)
		if err == nil {
			o.Say("each node and each member of etcd has a network namespace of its own")
			return n, nil
		}
		o.Say("no network namespaces (%v): partitions are only between nodes and etcd", err)
	}
	return newProxied(o)
}

// proxied is a network of proxies between nodes and members. Nodes always reach each other, and members do, too.
type proxied struct {
	servers   *etcdtest.Servers
	proxies   [Members][Members]*etcdtest.Proxy // by node and member
	addresses [Members]string
	isOff     [Members]bool // nodes
	isMemOff  [Members]bool
}

func newProxied(o trial.Options) (*proxied, error) {
	dir := filepath.Join(o.Dir, "etcd")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	servers, err := etcdtest.Run(o.Etcd, dir, etcdtest.Options{Members: Members})
	if err != nil {
		return nil, err
	}
	n := &proxied{servers: servers}
	for i := range Members {
		// No connection from 127.0.0.1 takes the port while the node does not run.
		n.addresses[i] = fmt.Sprintf("127.%d.%d.%d:%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254),
			10000+rand.IntN(20000))
		for j, target := range servers.Endpoints() {
			if n.proxies[i][j], err = etcdtest.RunProxy(target); err != nil {
				n.Close()
				return nil, err
			}
		}
	}
	return n, nil
}

func (n *proxied) Endpoints(node int) (all []string) {
	for _, p := range n.proxies[node] {
		all = append(all, p.Address)
	}
	return all
}

func (n *proxied) Address(node int) string { return n.addresses[node] }

func (n *proxied) Command(_ int, name string, args ...string) *exec.Cmd {
	return exec.Command(name, args...)
}

func (n *proxied) Cut(node int, off bool) error {
	n.isOff[node] = off
	n.update()
	return nil
}

func (n *proxied) CutMember(member int, off bool) error {
	n.isMemOff[member] = off
	n.update()
	return nil
}

func (n *proxied) update() {
	for i := range Members {
		for j := range Members {
			if n.isOff[i] || n.isMemOff[j] {
				n.proxies[i][j].Silence()
			} else {
				n.proxies[i][j].Pass()
			}
		}
	}
}

func (n *proxied) Kill(member int)        { n.servers.Kill(member) }
func (n *proxied) Start(member int) error { return n.servers.Start(member) }

func (n *proxied) Close() {
	for _, some := range n.proxies {
		for _, p := range some {
			if p != nil {
				p.Close()
			}
		}
	}
	n.servers.Stop()
}

// namespaces is a network of namespaces, one for each node and member, joined by a bridge in one of its own. The
// network of this machine is not touched.
type namespaces struct {
	o       trial.Options
	prefix  string // of the names of namespaces
	running [Members]*exec.Cmd
}

func newNamespaces(o trial.Options) (n *namespaces, err error) {
	n = &namespaces{o: o, prefix: fmt.Sprintf("coppice-chaos-%d-", os.Getpid())}
	defer func() {
		if err != nil {
			n.Close()
		}
	}()
	steps := []string{"netns add NET", "-n NET link add br0 type bridge", "-n NET link set br0 up"}
	for i := range 2 * Members {
		for _, step := range []string{
			"netns add HOST", "-n NET link add PORT type veth peer name eth0 netns HOST",
			"-n NET link set PORT master br0", "-n NET link set PORT up", "-n HOST link set lo up",
			"-n HOST addr add ADDRESS/24 dev eth0", "-n HOST link set eth0 up",
		} {
			names := strings.NewReplacer("HOST", n.host(i), "PORT", port(i), "ADDRESS", ip(i))
			steps = append(steps, names.Replace(step))
		}
	}
	for _, step := range steps {
		if err := n.ip(step); err != nil {
			return n, err
		}
	}
	for i := range Members {
		if err := n.Start(i); err != nil {
			return n, err
		}
	}
	return n, nil
}

// The nodes are the first hosts, and the members those that follow.
func (n *namespaces) host(i int) string { return fmt.Sprint(n.prefix, i) }
func port(i int) string                 { return fmt.Sprint("port", i) }
func ip(i int) string                   { return fmt.Sprintf("10.99.0.%d", 10+i) }

// ip runs ip with some arguments, of which NET is the namespace of the bridge.
func (n *namespaces) ip(args string) error {
	args = strings.ReplaceAll(args, "NET", n.prefix+"net")
	if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", args, err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (n *namespaces) Endpoints(int) (all []string) {
	for i := range Members {
		all = append(all, ip(Members+i)+":2379")
	}
	return all
}

func (n *namespaces) Address(node int) string { return ip(node) + ":7420" }

func (n *namespaces) Command(node int, name string, args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--net=/run/netns/" + n.host(node), name}, args...)...)
}

func (n *namespaces) Cut(node int, off bool) error {
	if off {
		return n.ip("-n NET link set " + port(node) + " nomaster")
	}
	return n.ip("-n NET link set " + port(node) + " master br0")
}

func (n *namespaces) CutMember(member int, off bool) error { return n.Cut(Members+member, off) }

func (n *namespaces) Kill(member int) {
	if cmd := n.running[member]; cmd != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		n.running[member] = nil
	}
}

func (n *namespaces) Start(member int) error {
	var initial []string
	for i := range Members {
		initial = append(initial, fmt.Sprintf("m%d=http://%s:2380", i, ip(Members+i)))
	}
	client, peer := "http://"+ip(Members+member)+":2379", "http://"+ip(Members+member)+":2380"
	cmd := n.Command(Members+member, n.o.Etcd, "--name", fmt.Sprint("m", member),
		"--data-dir", filepath.Join(n.o.Dir, fmt.Sprint("etcd", member)), "--listen-client-urls", client,
		"--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", strings.Join(initial, ","), "--log-level", "error")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	n.running[member] = cmd
	return cmd.Start()
}

func (n *namespaces) Close() {
	for i := range Members {
		n.Kill(i)
	}
	for i := range 2 * Members {
		_ = n.ip("netns del " + n.host(i))
	}
	_ = n.ip("netns del NET")
}
