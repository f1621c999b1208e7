package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/tools/chaos/internal/network"
	"github.com/coppice-dev/coppice/tools/chaos/internal/process"
	"github.com/coppice-dev/coppice/tools/chaos/internal/trial"
)

// node is one machine of a fleet.
type node struct {
	index     int
	name, dir string
	coppice   string
	net       network.Network
}

// commandTime bounds commands. Those that start a daemon wait until it knows the controller.
const commandTime = time.Minute

// run runs coppice at the node.
func (n *node) run(args ...string) (string, error) {
	cmd := n.net.Command(n.index, n.coppice, args...)
	cmd.Dir, cmd.WaitDelay = n.dir, 10*time.Second
	timer := time.AfterFunc(commandTime, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("node %s: coppice %s: %w: %s", n.name, strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// up starts the daemon.
func (n *node) up() error {
	out, err := n.run("up", "-d")
	if err != nil && strings.Contains(out, "not well:") { // agents that wait for the end of others
		return nil
	}
	return err
}

// ask calls the daemon.
func (n *node) ask(within time.Duration, do func(context.Context, *api.Client) error) error {
	socket, err := endpoint.Path(n.dir)
	if err != nil {
		return err
	}
	client := api.Dial(socket)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return do(ctx, client)
}

// controller returns the name of the controller, as the node knows it.
func (n *node) controller() (name string, err error) {
	err = n.ask(5*time.Second, func(ctx context.Context, c *api.Client) error {
		st, err := status.Get.Call(ctx, c, api.None{})
		name = st.Controller.Host
		return err
	})
	return name, err
}

// pids returns the processes of the node: the daemon, the shims, and the agents with their guard, in this order.
func (n *node) pids() (daemon, shims, agents []int) {
	for pid, argv := range process.All() {
		switch {
		case !process.IsInside(pid, n.dir) || len(argv) < 2:
		case argv[1] == "up":
			daemon = append(daemon, pid)
		case argv[1] == "shim":
			shims = append(shims, pid)
		default:
			agents = append(agents, pid)
		}
	}
	return daemon, shims, agents
}

// signalAll sends a signal to processes that may have ended.
func signalAll(sig syscall.Signal, pids ...int) error {
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("%v to process %d: %w", sig, pid, err)
		}
	}
	return nil
}

// kill kills the daemon, and the shims with their agents if that is asked for, and waits until they have ended. What
// the agents have started is left to the guard.
func (n *node) kill(shims bool) error {
	daemon, some, _ := n.pids()
	all := daemon
	if shims {
		all = append(all, some...)
	}
	if len(daemon) != 1 {
		return fmt.Errorf("node %s has the daemons %v", n.name, daemon)
	}
	if err := signalAll(syscall.SIGSTOP, all...); err != nil { // none does anything about the end of another one
		return err
	}
	if err := signalAll(syscall.SIGKILL, all...); err != nil {
		return err
	}
	for _, pid := range all {
		if err := process.AwaitEnd(pid); err != nil {
			return err
		}
	}
	return nil
}

// terminate ends the daemon as systemd does.
func (n *node) terminate() error {
	daemon, _, _ := n.pids()
	if len(daemon) != 1 {
		return fmt.Errorf("node %s has the daemons %v", n.name, daemon)
	}
	if err := signalAll(syscall.SIGTERM, daemon...); err != nil {
		return err
	}
	return process.AwaitEnd(daemon[0])
}

// pause stops all processes of the node, and resume has them go on.
func (n *node) pause() (paused []int, err error) {
	for range 2 { // what was started meanwhile, too
		daemon, shims, agents := n.pids()
		paused = append(append(daemon, shims...), agents...)
		if err := signalAll(syscall.SIGSTOP, paused...); err != nil {
			return nil, err
		}
	}
	return paused, nil
}

func resume(paused []int) error { return signalAll(syscall.SIGCONT, paused...) }

// clean kills what is left of the node.
func (n *node) clean() {
	for range 3 {
		daemon, shims, agents := n.pids()
		_ = signalAll(syscall.SIGKILL, append(append(daemon, shims...), agents...)...)
	}
}

// newNodes makes the directories of nodes, and makes them nodes.
func newNodes(o trial.Options, net network.Network, toml string) (nodes []*node, err error) {
	coppice, err := filepath.Abs(o.Coppice)
	if err != nil {
		return nil, err
	}
	for i := range network.Members {
		n := &node{index: i, name: fmt.Sprint("n", i), dir: filepath.Join(o.Dir, fmt.Sprint("n", i)),
			coppice: coppice, net: net}
		err := errors.Join(os.Mkdir(n.dir, 0o700),
			os.WriteFile(filepath.Join(n.dir, "coppice.toml"), []byte(toml), 0o600))
		if err != nil {
			return nil, err
		}
		store := fmt.Sprintf("etcd://%s/chaos", strings.Join(net.Endpoints(i), ","))
		if err := poll(commandTime, func() error { // until etcd serves
			_, err := n.run("cluster", "init", "--store", store, "--name", n.name, "--listen", net.Address(i),
				"--advertise", net.Address(i))
			return err
		}); err != nil {
			return nil, err
		}
		if err := n.up(); err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// EtcdProgram is where make deps installs the server.
const EtcdProgram = ".cache/etcd/etcd"

// findEtcd returns the absolute path of the server.
func findEtcd(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err == nil {
		path, err = exec.LookPath(path)
	}
	if err != nil {
		return "", fmt.Errorf("%w; install it with: make deps", err)
	}
	return path, nil
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
