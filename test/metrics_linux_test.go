package test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/exectest"
)

// metricsClient reads the metrics of a daemon at an address.
type metricsClient struct {
	t       *testing.T
	address string
	http.Client
}

// newMetricsClient returns a client of an address that was free.
func newMetricsClient(t *testing.T) *metricsClient {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return &metricsClient{t, l.Addr().String(), http.Client{
		Transport: &http.Transport{DisableKeepAlives: true}, Timeout: waitTimeout}}
}

func (c *metricsClient) get(path string) (status int, body string) {
	answer, err := c.Get("http://" + c.address + path)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(text)
}

// await waits until all lines are among the metrics.
func (c *metricsClient) await(lines ...string) {
	c.t.Helper()
	eventually(c.t, strings.Join(lines, ", "), func() bool {
		_, body := c.get("/metrics")
		for _, line := range lines {
			if !strings.Contains(body, "\n"+line+"\n") {
				return false
			}
		}
		return true
	})
}

// What Prometheus reads is what has happened: an agent crashes, comes back, is adopted, and another one is removed.
func TestMetrics(t *testing.T) {
	t.Parallel()
	c := newMetricsClient(t)
	file := "[metrics]\nlisten = \"" + c.address + `"
[[agent]]
name = "a"
command = ["sleep", "1000"]
backoff = { base = "10ms", jitter = false }
`
	f := newFleet(t, file+`
[[agent]]
name = "b"
command = ["sleep", "1000"]
`)
	f.do("up", "-d")
	ready := func() {
		t.Helper()
		eventually(t, "readiness", func() bool {
			status, body := c.get("/readyz")
			return status == 200 && body == "ok"
		})
	}
	ready()
	one := func(metric, agent, more string) string {
		return fmt.Sprintf("coppice_agent_%s{agent=\"t/%s\"%s} 1", metric, agent, more)
	}
	c.await(`coppice_agents{state="running"} 2`, one("up", "a", ""), one("up", "b", ""),
		one("starts_total", "a", `,reason="start"`), `coppice_store_writable 1`,
		`coppice_events_total{type="controller.started"} 1`, `coppice_recovery_seconds_count 0`)
	used := regexp.MustCompile(`\ncoppice_agent_memory_bytes{agent="t/a"} [1-9]`)
	eventually(t, "what agents use", func() bool {
		_, body := c.get("/metrics")
		return used.MatchString(body) && strings.Contains(body, "\ncoppice_agent_cpu_seconds_total{agent=\"t/a\"} ") &&
			!strings.Contains(body, "\ncoppice_store_write_seconds_count 0\n")
	})
	exectest.Signal(t, f.node("t/a").PID, syscall.SIGKILL)
	c.await(one("exits_total", "a", `,outcome="crashed"`), one("starts_total", "a", `,reason="restart"`),
		one("up", "a", ""), `coppice_recovery_seconds_count 1`, `coppice_restart_delay_seconds_count 1`,
		`coppice_events_total{type="agent.crashed"} 1`, `coppice_agents{state="running"} 2`)
	if status, body := c.get("/livez?verbose"); status != 200 || body != "[+]root ok\nlivez check passed\n" {
		t.Errorf("%d %s", status, body)
	}

	f.replaceFile("coppice.toml", "[project]\nname = \"t\"\n"+file)
	eventually(t, "the end of the series of an agent that was removed", func() bool {
		_, body := c.get("/metrics")
		return strings.Contains(body, "\ncoppice_agents{state=\"running\"} 1\n") && !strings.Contains(body, "t/b")
	})

	f.crash()
	f.do("up", "-d")
	ready()
	c.await(one("starts_total", "a", `,reason="adoption"`), one("up", "a", ""), `coppice_recovery_seconds_count 0`)
	if _, body := c.get("/metrics"); strings.Contains(body, "coppice_agent_exits_total{") {
		t.Errorf("the counters of another daemon go on: %s", body)
	}
}

// While the daemon stops, it is alive and can be scraped, and it is not ready.
func TestMetricsWhileStopping(t *testing.T) {
	t.Parallel()
	c := newMetricsClient(t)
	f := newFleet(t, "[metrics]\nlisten = \""+c.address+`"
[[agent]]
name = "a"
command = ["./agent"]
[agent.shutdown]
grace = "1m"
`)
	exectest.Write(t, filepath.Join(f.dir, "agent"), `#!/bin/sh
trap 'touch asked; while [ ! -e go ]; do sleep 0.05; done; exit 0' TERM
touch trapped
while :; do sleep 0.05; done
`)
	f.do("up", "-d")
	f.awaitFile("trapped")
	c.await(`coppice_agent_up{agent="t/a"} 1`)
	down := make(chan error, 1)
	go func() {
		_, err := f.try("down")
		down <- err
	}()
	f.awaitFile("asked")
	c.await(`coppice_agents{state="stopping"} 1`, `coppice_agent_up{agent="t/a"} 0`)
	if status, body := c.get("/readyz"); status != 503 || !strings.Contains(body, "[-]stopping failed: ") {
		t.Errorf("%d %s", status, body)
	}
	if status, body := c.get("/livez"); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	write(t, filepath.Join(f.dir, "go"), "")
	for ended := false; !ended; {
		select {
		case err := <-down:
			if err != nil {
				t.Error(err)
			}
			ended = true
		default:
			if status, body := c.get("/metrics"); status != 200 && status != 0 {
				t.Errorf("%d %s", status, body)
			}
		}
	}
	if status, _ := c.get("/livez"); status != 0 {
		t.Errorf("it still listens: %d", status)
	}
}

// Without [metrics] a daemon listens on no port.
func TestMetricsOff(t *testing.T) {
	t.Parallel()
	f := newFleet(t, `
[[agent]]
name = "a"
command = ["sleep", "1000"]
`)
	f.do("up", "-d")
	if ports := listeningOn(t, f.status().Controller.PID); len(ports) > 0 {
		t.Errorf("it listens on %v", ports)
	}
	c := newMetricsClient(t)
	other := newFleet(t, "[metrics]\nlisten = \""+c.address+`"
[[agent]]
name = "a"
command = ["sleep", "1000"]
`)
	other.do("up", "-d")
	eventually(t, "a port", func() bool { return len(listeningOn(t, other.status().Controller.PID)) == 1 })
}

// A rehearsal with fakes leaves the port to the daemon of the project.
func TestMetricsOfFakes(t *testing.T) {
	t.Parallel()
	r := newFakeRun(t, "[metrics]\nlisten = \""+newMetricsClient(t).address+"\"\n",
		agentTOML("a", "claude -p x; sleep 100", `restart = "never"`))
	c := r.run("--fake", "ok,pace=0s", "--json")
	c.awaitReport("agent.started a 1", "")
	if ports := listeningOn(t, c.Process.Pid); len(ports) > 0 {
		t.Errorf("it listens on %v", ports)
	}
	c.signal(syscall.SIGINT)
	c.wantExit(exitSignalled + int(syscall.SIGINT))
}

// listeningOn returns the TCP addresses that a process listens on, as the kernel writes them.
func listeningOn(t *testing.T, pid int) (all []string) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/", pid)
	files, err := os.ReadDir(dir + "fd")
	if err != nil {
		t.Fatal(err)
	}
	sockets := map[string]bool{}
	for _, file := range files {
		if to, err := os.Readlink(dir + "fd/" + file.Name()); err == nil && strings.HasPrefix(to, "socket:[") {
			sockets[strings.Trim(to, "socket:[]")] = true
		}
	}
	for _, table := range []string{"net/tcp", "net/tcp6"} {
		text, err := os.ReadFile(dir + table)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			const local, state, inode, listens = 1, 3, 9, "0A"
			if f := strings.Fields(line); len(f) > inode && f[state] == listens && sockets[f[inode]] {
				all = append(all, f[local])
			}
		}
	}
	return all
}
