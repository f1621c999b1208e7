package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
)

// members is the number of members of etcd, and of nodes.
const members = 3

// network connects nodes with each other and with the members of etcd.
type network interface {
	// endpoints returns the addresses of the members for a node, and address the one at which the node listens.
	endpoints(node int) []string
	address(node int) string
	// command returns a command that runs at a node.
	command(node int, name string, args ...string) *exec.Cmd
	// cut cuts a node off from all others, or ends that. cutMember does that to a member.
	cut(node int, off bool) error
	cutMember(member int, off bool) error
	// kill kills a member, and start starts it again.
	kill(member int)
	start(member int) error
	close()
}

// newNetwork returns namespaces if this machine allows them.
func newNetwork(o options) (network, error) {
	if o.namespaces {
		n, err := newNamespaces(o)
		if err == nil {
			o.say("each node and each member of etcd has a network namespace of its own")
			return n, nil
		}
		o.say("no network namespaces (%v): partitions are only between nodes and etcd", err)
	}
	return newProxied(o)
}

// proxied is a network of proxies between nodes and members. Nodes always reach each other, and members do, too.
type proxied struct {
	servers   *etcdtest.Servers
	proxies   [members][members]*etcdtest.Proxy // by node and member
	addresses [members]string
	isOff     [members]bool // nodes
	isMemOff  [members]bool
}

func newProxied(o options) (*proxied, error) {
	dir := filepath.Join(o.dir, "etcd")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	servers, err := etcdtest.Run(o.etcd, dir, etcdtest.Options{Members: members})
	if err != nil {
		return nil, err
	}
	n := &proxied{servers: servers}
	for i := range members {
		// No connection from 127.0.0.1 takes the port while the node does not run.
		n.addresses[i] = fmt.Sprintf("127.%d.%d.%d:%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254),
			10000+rand.IntN(20000))
		for j, target := range servers.Endpoints() {
			if n.proxies[i][j], err = etcdtest.RunProxy(target); err != nil {
				n.close()
				return nil, err
			}
		}
	}
	return n, nil
}

func (n *proxied) endpoints(node int) (all []string) {
	for _, p := range n.proxies[node] {
		all = append(all, p.Address)
	}
	return all
}

func (n *proxied) address(node int) string { return n.addresses[node] }

func (n *proxied) command(_ int, name string, args ...string) *exec.Cmd {
	return exec.Command(name, args...)
}

func (n *proxied) cut(node int, off bool) error {
	n.isOff[node] = off
	n.update()
	return nil
}

func (n *proxied) cutMember(member int, off bool) error {
	n.isMemOff[member] = off
	n.update()
	return nil
}

func (n *proxied) update() {
	for i := range members {
		for j := range members {
			if n.isOff[i] || n.isMemOff[j] {
				n.proxies[i][j].Silence()
			} else {
				n.proxies[i][j].Pass()
			}
		}
	}
}

func (n *proxied) kill(member int)        { n.servers.Kill(member) }
func (n *proxied) start(member int) error { return n.servers.Start(member) }

func (n *proxied) close() {
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
	o       options
	prefix  string // of the names of namespaces
	running [members]*exec.Cmd
}

func newNamespaces(o options) (n *namespaces, err error) {
	n = &namespaces{o: o, prefix: fmt.Sprintf("coppice-chaos-%d-", os.Getpid())}
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	steps := []string{"netns add NET", "-n NET link add br0 type bridge", "-n NET link set br0 up"}
	for i := range 2 * members {
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
	for i := range members {
		if err := n.start(i); err != nil {
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

func (n *namespaces) endpoints(int) (all []string) {
	for i := range members {
		all = append(all, ip(members+i)+":2379")
	}
	return all
}

func (n *namespaces) address(node int) string { return ip(node) + ":7420" }

func (n *namespaces) command(node int, name string, args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--net=/run/netns/" + n.host(node), name}, args...)...)
}

func (n *namespaces) cut(node int, off bool) error {
	if off {
		return n.ip("-n NET link set " + port(node) + " nomaster")
	}
	return n.ip("-n NET link set " + port(node) + " master br0")
}

func (n *namespaces) cutMember(member int, off bool) error { return n.cut(members+member, off) }

func (n *namespaces) kill(member int) {
	if cmd := n.running[member]; cmd != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		n.running[member] = nil
	}
}

func (n *namespaces) start(member int) error {
	var initial []string
	for i := range members {
		initial = append(initial, fmt.Sprintf("m%d=http://%s:2380", i, ip(members+i)))
	}
	client, peer := "http://"+ip(members+member)+":2379", "http://"+ip(members+member)+":2380"
	cmd := n.command(members+member, n.o.etcd, "--name", fmt.Sprint("m", member),
		"--data-dir", filepath.Join(n.o.dir, fmt.Sprint("etcd", member)), "--listen-client-urls", client,
		"--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", strings.Join(initial, ","), "--log-level", "error")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	n.running[member] = cmd
	return cmd.Start()
}

func (n *namespaces) close() {
	for i := range members {
		n.kill(i)
	}
	for i := range 2 * members {
		_ = n.ip("netns del " + n.host(i))
	}
	_ = n.ip("netns del NET")
}

// errLate means that what was waited for has not come.
var errLate = errors.New("too late")

// poll waits until missing returns nil.
func poll(within time.Duration, missing func() error) error {
	for end := time.Now().Add(within); ; time.Sleep(50 * time.Millisecond) {
		err := missing()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%w, after %v: %w", errLate, within, err)
		}
	}
}
