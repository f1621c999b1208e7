// Package etcdtest runs clusters of real etcd servers for tests.
package etcdtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/exectest"
)

// Options of a cluster.
type Options struct {
	Members int  // 3 if zero
	TLS     bool // clients need a certificate; see Cluster.Files
	// Args are more arguments of the servers.
	Args []string
}

// Cluster is a cluster of etcd servers on this machine.
type Cluster struct {
	t       testing.TB
	dir     string
	program string
	options Options
	members []*member
	Files   Files
}

// member is one server. Its ports stay the same when it is started again.
type member struct {
	client, peer string // host:port
	mu           sync.Mutex
	running      *exec.Cmd
	exited       chan struct{}
	output       bytes.Buffer
}

const (
	startTime = 30 * time.Second
	maxStarts = 5
)

// errPort means that a server could not listen, since another program has taken its port in the meantime.
var errPort = errors.New("a port is in use")

// Start starts a cluster, and returns when it serves. It ends with the test.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	if o.Members == 0 {
		o.Members = 3
	}
	c := &Cluster{t: t, options: o, program: program(t)}
	for try := 1; ; try++ {
		c.dir = t.TempDir()
		err := c.start()
		if err == nil {
			break
		}
		c.Stop()
		if !errors.Is(err, errPort) || try == maxStarts {
			t.Fatalf("starting etcd: %v", err)
		}
	}
	t.Cleanup(c.Stop)
	return c
}

// program returns the path of the server.
func program(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			break
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
			continue
		}
		err = errors.New("no go.mod above the test")
	}
	path := filepath.Join(dir, ".cache", "etcd", "etcd")
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		exectest.Missing(t, fmt.Errorf("%w; install it with: make deps", err))
	}
	return path
}

func (c *Cluster) start() error {
	c.members = nil
	if c.options.TLS {
		c.Files = newFiles(c.t, c.dir)
	}
	ports, err := freePorts(2 * c.options.Members)
	if err != nil {
		return err
	}
	for i := range c.options.Members {
		c.members = append(c.members, &member{client: ports[2*i], peer: ports[2*i+1]})
	}
	for i := range c.members {
		if err := c.run(i); err != nil {
			return err
		}
	}
	for i := range c.members {
		if err := c.await(i); err != nil {
			return err
		}
	}
	return nil
}

// freePorts returns different addresses on which nothing listens.
func freePorts(n int) ([]string, error) {
	var addresses []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}

// Endpoints returns host:port of all members.
func (c *Cluster) Endpoints() []string {
	var all []string
	for _, m := range c.members {
		all = append(all, m.client)
	}
	return all
}

// URL returns the location of a store in the cluster.
func (c *Cluster) URL(prefix string) string {
	if c.options.TLS {
		return fmt.Sprintf("etcds://%s/%s?ca=%s&cert=%s&key=%s", strings.Join(c.Endpoints(), ","), prefix, c.Files.CA,
			c.Files.Cert, c.Files.Key)
	}
	return fmt.Sprintf("etcd://%s/%s", strings.Join(c.Endpoints(), ","), prefix)
}

func (c *Cluster) run(i int) error {
	m := c.members[i]
	http := "http://"
	if c.options.TLS {
		http = "https://"
	}
	var initial []string
	for j, other := range c.members {
		initial = append(initial, fmt.Sprintf("m%d=http://%s", j, other.peer))
	}
	args := []string{
		"--name", fmt.Sprintf("m%d", i), "--data-dir", filepath.Join(c.dir, fmt.Sprintf("m%d", i)),
		"--listen-client-urls", http + m.client, "--advertise-client-urls", http + m.client,
		"--listen-peer-urls", "http://" + m.peer, "--initial-advertise-peer-urls", "http://" + m.peer,
		"--initial-cluster", strings.Join(initial, ","), "--initial-cluster-token", c.dir,
		"--log-level", "warn",
	}
	if c.options.TLS {
		args = append(args, "--client-cert-auth", "--trusted-ca-file", c.Files.CA, "--cert-file", c.Files.serverCert,
			"--key-file", c.Files.serverKey)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.output.Reset()
	cmd := exec.Command(c.program, append(args, c.options.Args...)...)
	cmd.Stdout, cmd.Stderr = lockedWriter{m}, lockedWriter{m}
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		return err
	}
	m.running, m.exited = cmd, make(chan struct{})
	go func(exited chan struct{}) {
		_ = cmd.Wait()
		close(exited)
	}(m.exited)
	return nil
}

// lockedWriter writes to the output of a member.
type lockedWriter struct{ m *member }

func (w lockedWriter) Write(p []byte) (int, error) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	return w.m.output.Write(p)
}

// await returns when a member accepts connections and has a leader.
func (c *Cluster) await(i int) error {
	m := c.members[i]
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if c.healthy(ctx, i) {
			return nil
		}
		select {
		case <-m.exited:
			m.mu.Lock()
			defer m.mu.Unlock()
			output := m.output.String()
			if strings.Contains(output, "address already in use") {
				return errPort
			}
			return fmt.Errorf("member %d has ended: %s", i, output)
		case <-ctx.Done():
			m.mu.Lock()
			defer m.mu.Unlock()
			return fmt.Errorf("member %d is not ready after %v: %s", i, startTime, m.output.String())
		case <-tick.C:
		}
	}
}

// Pause stops a member, whose connections stay open, and returns when it has stopped; Continue has it go on.
func (c *Cluster) Pause(i int) {
	c.t.Helper()
	pid := c.members[i].running.Process.Pid
	exectest.Signal(c.t, pid, syscall.SIGSTOP)
	if err := awaitStopped(pid); err != nil {
		c.t.Fatalf("waiting until member %d has stopped: %v", i, err)
	}
}

func (c *Cluster) Continue(i int) {
	c.t.Helper()
	exectest.Signal(c.t, c.members[i].running.Process.Pid, syscall.SIGCONT)
}

// Kill kills a member and returns when it has ended.
func (c *Cluster) Kill(i int) {
	m := c.members[i]
	if m.running == nil {
		return
	}
	_ = m.running.Process.Kill()
	<-m.exited
	m.running = nil
}

// Restart starts a member that was killed.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	if err := c.run(i); err != nil {
		c.t.Fatal(err)
	}
	if err := c.await(i); err != nil {
		c.t.Fatal(err)
	}
}

// Stop kills all members.
func (c *Cluster) Stop() {
	for i := range c.members {
		c.Kill(i)
	}
}
