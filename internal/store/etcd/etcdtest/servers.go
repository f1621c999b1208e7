package etcdtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options of a cluster.
type Options struct {
	Members int  // 3 if zero
	TLS     bool // clients need a certificate; see Cluster.Files
	// Args are more arguments of the servers.
	Args []string
}

// Servers are a cluster of etcd servers on this machine.
type Servers struct {
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

// Run starts a cluster for a program that is no test, and returns when it serves. The caller ends it with Stop. program
// is the path of the server, and dir an empty directory for its files.
func Run(program, dir string, o Options) (*Servers, error) {
	if o.Members == 0 {
		o.Members = 3
	}
	for try := 1; ; try++ {
		c := &Servers{options: o, program: program, dir: filepath.Join(dir, strconv.Itoa(try))}
		err := os.Mkdir(c.dir, 0o700)
		if err == nil {
			err = c.start()
		}
		if err == nil {
			return c, nil
		}
		c.Stop()
		if !errors.Is(err, errPort) || try == maxStarts {
			return nil, fmt.Errorf("starting etcd: %w", err)
		}
	}
}

func (c *Servers) start() error {
	c.members = nil
	host := newHost()
	if c.options.TLS {
		var err error
		if c.Files, err = newFiles(c.dir, host); err != nil {
			return err
		}
	}
	ports, err := freePorts(host, 2*c.options.Members)
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

// newHost returns the IP address of a new cluster. On Linux it is one of its own: another cluster could have a port by
// the time that a member of this one listens, and would be taken for it.
func newHost() string {
	if runtime.GOOS != "linux" {
		return "127.0.0.1"
	}
	return fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
}

// freePorts returns different addresses of a host on which nothing listens.
func freePorts(host string, n int) ([]string, error) {
	var addresses []string
	for range n {
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}

// Endpoints returns host:port of all members.
func (c *Servers) Endpoints() []string {
	var all []string
	for _, m := range c.members {
		all = append(all, m.client)
	}
	return all
}

// URL returns the location of a store in the cluster.
func (c *Servers) URL(prefix string) string {
	if c.options.TLS {
		return fmt.Sprintf("etcds://%s/%s?ca=%s&cert=%s&key=%s", strings.Join(c.Endpoints(), ","), prefix, c.Files.CA,
			c.Files.Cert, c.Files.Key)
	}
	return fmt.Sprintf("etcd://%s/%s", strings.Join(c.Endpoints(), ","), prefix)
}

func (c *Servers) run(i int) error {
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
func (c *Servers) await(i int) error {
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

// Kill kills a member and returns when it has ended.
func (c *Servers) Kill(i int) {
	m := c.members[i]
	if m.running == nil {
		return
	}
	_ = m.running.Process.Kill()
	<-m.exited
	m.running = nil
}

// Start starts a member that was killed, and returns when it serves.
func (c *Servers) Start(i int) error {
	if err := c.run(i); err != nil {
		return err
	}
	return c.await(i)
}

// Stop kills all members.
func (c *Servers) Stop() {
	for i := range c.members {
		c.Kill(i)
	}
}
