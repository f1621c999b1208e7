// Package etcdtest runs clusters of real etcd servers for tests.
package etcdtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/exectest"
)

// Cluster is a cluster of a test.
type Cluster struct {
	*Servers
	t testing.TB
}

// Start starts a cluster, and returns when it serves. It ends with the test.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	servers, err := Run(program(t), t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(servers.Stop)
	return &Cluster{servers, t}
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

// Restart starts a member that was killed.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	if err := c.Start(i); err != nil {
		c.t.Fatal(err)
	}
}
